"""The job mirror from a real Apache Kafka: a topic and its consumer groups move here, and nothing is lost."""

from __future__ import annotations

import os
import sys
import time

import pytest
from bench.peers.kafka import start_kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from pyspark.sql import SparkSession

from mainstem.pipeline.jobs import JobRun
from mainstem.pipeline.jobs.mirror import JOB

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

T0_MS = 1_700_000_000_000
TOPIC, PARTITIONS = "orders", 3


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    server = start_kafka("kafka", tmp_path_factory.mktemp("kafka"))
    yield f"127.0.0.1:{server.port}"
    server.stop()


def fill(address, first, count):
    """Transactions of ten records, some aborted: so offsets have gaps. What was committed, in order."""
    settings = {"bootstrap.servers": address, "transactional.id": "orders", "compression.type": "lz4"}
    producer = Producer(settings)
    producer.init_transactions(60)
    good = []
    for number in range(first, first + count):
        producer.begin_transaction()
        partition = number % PARTITIONS
        for i in range(10):
            value = b"%d-%d" % (number, i)
            producer.produce(
                TOPIC, value, b"k%d" % i, partition, timestamp=T0_MS + number, headers=[("n", b"%d" % number)]
            )
        if number % 3 == 2 and number % 2:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            good += [(partition, b"%d-%d" % (number, i)) for i in range(10)]
    return good


def consumer_of(address, group, **more):
    settings = {"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False}
    return Consumer(
        {**settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed", **more}
    )


def take(consumer, count):
    found, deadline = [], time.monotonic() + 120
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came"
        message = consumer.poll(0.5)
        if message is not None:
            assert not message.error(), message.error()
            found.append(message)
    return found


def told(messages):
    """All that a record is, but its offset."""
    return sorted(
        (one.partition(), one.key(), one.value(), one.timestamp()[1], one.headers()) for one in messages
    )


def mirror(spark, kafka, broker, folder):
    defaults = {option.name: option.default for option in JOB.options if option.default}
    options = defaults | {"from": kafka, "topics": TOPIC, "max.records": "100", "groups.seconds": "1"}
    JOB.check(options)
    here = {"kafka.bootstrap.servers": broker.kafka}
    (query,) = JOB.start(
        JobRun(spark, here, "moving", options, str(folder), {"availableNow": True}, once=True)
    )
    query.awaitTermination(180)
    assert not query.isActive


def committed(address, group):
    consumer = consumer_of(address, group)
    places = consumer.committed([TopicPartition(TOPIC, p) for p in range(PARTITIONS)], 30)
    consumer.close()
    return [place.offset for place in places]


def test_a_topic_and_its_groups_move_from_kafka(spark, kafka, broker, tmp_path):
    """One group of each protocol; and once more when more has come."""
    admin = AdminClient({"bootstrap.servers": kafka})
    wanted = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1", "max.message.bytes": "2000000"})
    admin.create_topics([wanted])[TOPIC].result(60)
    good = fill(kafka, 0, 30)
    everything = consumer_of(kafka, "everything")
    everything.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    whole = take(everything, len(good))
    everything.close()

    seen = {}
    for protocol, count in (("classic", 87), ("consumer", 133)):
        reader = consumer_of(kafka, protocol, **{"group.protocol": protocol})
        reader.subscribe([TOPIC])
        seen[protocol] = take(reader, count)
        reader.commit(asynchronous=False)
        reader.close()
    mirror(spark, kafka, broker, tmp_path)

    for protocol, before in seen.items():
        _settled(broker, kafka, protocol)
        reader = consumer_of(broker.kafka, protocol)
        reader.subscribe([TOPIC])
        after = take(reader, len(good) - len(before))
        assert told(before + after) == told(whole), "there and here, each once"
        reader.commit(asynchronous=False)
        reader.close()

    more = fill(kafka, 30, 30)
    mirror(spark, kafka, broker, tmp_path)
    reader = consumer_of(broker.kafka, "classic")
    reader.subscribe([TOPIC])
    late = take(reader, len(more))
    reader.close()
    assert sorted((one.partition(), one.value()) for one in late) == sorted(more)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    here = AdminClient({"bootstrap.servers": broker.kafka})
    configs = here.describe_configs([resource])[resource].result(30)
    assert (configs["retention.ms"].value, configs["max.message.bytes"].value) == ("-1", "2000000")


def _settled(broker, kafka, group):
    """Groups are moved once more after the query has ended."""
    known = [offset >= 0 for offset in committed(kafka, group)]
    deadline = time.monotonic() + 60
    while [offset >= 0 for offset in committed(broker.kafka, group)] != known:
        assert time.monotonic() < deadline, "the group was not moved"
        time.sleep(0.1)
