"""Crash a real broker under load, over and over, and check that it lost nothing.

    ledger.py     what was sent and what the broker said to it; lives here, so it survives the broker
    producers.py, consumers.py, pipeline.py
                  the load: real clients in threads, each of which comes to rest when asked to
    server.py     the broker as a process: start on the same ports, kill
    disks.py      a small ext4 in a file, and the power cut
    faults.py     when to strike, and how
    readback.py   everything that is in the broker, as readers see it
    judge.py      ledger against readback; pure
    scene.py      the clients and their topics, together
    cycles.py     load, strike, start again, come to rest, judge; run.py puts the two together

    verdict.py    promises, and where they were broken

The same cycles with a load on queues:

    queue_ledger.py   what clients sent and saw
    queue_line.py     a connection, by pika; nobody else here knows it
    queue_clients.py, queue_publishers.py, queue_consumers.py
                      the load
    queue_scene.py    the queues and the clients on them
    queue_judge.py    what was seen against what was promised; pure

and the same for a pipeline on Spark, whose driver, executors and broker are killed while it counts:

    spark_rows.py     the rows that go in, and what must come of them; pure
    spark_job.py      the driver: three streaming queries, in a process of its own
    spark_house.py    Spark's processes, and which of them can be killed
    spark_strikes.py  whom to kill when; pure
    spark_feeder.py, spark_watch.py
                      sends the rows; notes what readers are shown, and reads everything back
    spark_judge.py    rows against readback; pure
    spark_run.py      the run

`mainstem torture`, `mainstem torture queues` and `mainstem torture spark` are the commands around it. The
first needs confluent-kafka, the second pika, the third Spark, so nothing else imports this room.
"""
