"""What tests of built-in jobs share: a job run as a pipeline would run it."""

import json

from confluent_kafka import Producer
from spark_kit import new_name

from mainstem.pipeline.counting import COUNTED, Tally
from mainstem.pipeline.jobs import JobRun, job_of

ONCE = {"availableNow": True}


def start_job(house, kind, checkpoint, trigger=None, tally=None, **options):
    job = job_of(kind)
    given = {option.name: option.default for option in job.options} | {k: str(v) for k, v in options.items()}
    assert not [o.name for o in job.options if o.required and not given[o.name]]
    job.check(given)
    trigger = trigger or ONCE
    run = JobRun(
        house.spark,
        {"kafka.bootstrap.servers": house.address},
        new_name("job"),
        given,
        str(checkpoint),
        trigger,
        trigger is ONCE,
        tally or Tally(),
    )
    return job.start(run)


def run_job(house, kind, checkpoint, **options):
    """To its end."""
    queries = start_job(house, kind, checkpoint, **options)
    for query in queries:
        assert query.awaitTermination(120)
    return queries


def counted_rows(query):
    """That went out, as Spark tells what was counted on the way."""
    told = (json.loads(one.json) for one in query.recentProgress)
    return sum(one["observedMetrics"][COUNTED]["rows"] for one in told if one.get("observedMetrics"))


def put_json(house, topic, rows, partition=0, **how):
    house.fill(topic, [json.dumps(row).encode() for row in rows], partition, **how)


def put_in_transaction(house, topic, values, *, commit):
    producer = Producer(
        {"bootstrap.servers": house.address, "transactional.id": new_name("tx"), "linger.ms": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(30)
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


def data_files(folder):
    """As a pattern of names finds them, without regard to what is hidden."""
    return sorted(folder.rglob("*.parquet"))
