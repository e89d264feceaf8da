"""Crash a real broker under load, over and over, and check that it lost nothing.

    ledger.py     what was sent and what the broker said to it; lives here, so it survives the broker
    producers.py, consumers.py, pipeline.py
                  the load: real clients in threads, each of which comes to rest when asked to
    server.py     the broker as a process: start on the same ports, kill
    disks.py      a small ext4 in a file, and the power cut
    faults.py     when to strike, and how
    readback.py   everything that is in the broker, as readers see it
    judge.py      ledger against readback; pure
    run.py        the cycles

`mainstem torture` is the command around it. It needs confluent-kafka, so nothing else imports this room.
"""
