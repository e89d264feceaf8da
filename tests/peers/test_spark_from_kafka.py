"""Spark reads a real Apache Kafka through the same data source, to move from it: batches, streams, copies."""

from __future__ import annotations

import datetime
import json
import os
import sys

import pytest
from bench.peers.kafka import start_kafka
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
T0_MS = 1_700_000_000_000
COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """With a topic of each codec in turn, and one of transactions: ended well, badly, or not yet."""
    server = start_kafka("kafka", tmp_path_factory.mktemp("kafka"))
    address = f"127.0.0.1:{server.port}"
    admin = AdminClient({"bootstrap.servers": address})
    kept = {"retention.ms": "-1"}  # the records have times of long ago
    wanted = [NewTopic("codecs", 2, 1, config=kept), NewTopic("moved", 3, 1)]
    for future in admin.create_topics(wanted).values():
        future.result(60)
    for number, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
        for i in range(200):
            value = b'{"id": %d, "codec": "%s"}' % (i, codec.encode())
            at = T0_MS + (number * 7 % 5) * 1000 + i  # not in order
            producer.produce(
                "codecs", value, b"k%d" % i, i % 2, timestamp=at, headers={"codec": codec.encode()}
            )
        assert producer.flush(60) == 0
    open_one = transaction(address, "moved", "open", 2)
    transaction(address, "moved", "aborted", 0).abort_transaction(60)
    for partition in range(2):
        transaction(address, "moved", "good", partition).commit_transaction(60)
    yield address
    open_one.abort_transaction(60)
    server.stop()


def transaction(address, topic, name, partition):
    """One under way, everything sent."""
    settings = {"bootstrap.servers": address, "transactional.id": f"{name}-{partition}", "linger.ms": 0}
    producer = Producer({**settings, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    producer.begin_transaction()
    for i in range(100):
        producer.produce(topic, f"{name}-{partition}-{i}", partition=partition)
    assert producer.flush(60) == 0
    return producer


def options(address, topic, **more):
    return {"kafka.bootstrap.servers": address, "subscribe": topic, **{k: str(v) for k, v in more.items()}}


def read(spark, address, topic, **more):
    return spark.read.format("mainstem").options(**options(address, topic, **more)).load()


def run(spark, address, topic, folder, **more):
    """A stream of all that is there to Parquet; the rows of each trigger."""
    stream = spark.readStream.format("mainstem").options(**options(address, topic, **more)).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.option("path", f"{folder}/out").trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert not query.isActive
    rows = [json.loads(progress.json)["numInputRows"] for progress in query.recentProgress]
    return [count for count in rows if count]


GOOD = sorted(f"good-{partition}-{i}" for partition in range(2) for i in range(100))


def test_a_batch_reads_every_codec_with_headers_and_typed(spark, kafka):
    rows = read(spark, kafka, "codecs", includeHeaders="true").collect()
    assert len(rows) == 1000
    for row in rows:
        assert bytes(row.headers[0].value).decode() == json.loads(bytes(row.value))["codec"]
    typed = read(spark, kafka, "codecs", format="json", schema="id BIGINT, codec STRING")
    counts = {row.codec: (row.n, row.s) for row in typed.groupBy("codec").agg({"*": "count", "id": "sum"})
              .toDF("codec", "n", "s").collect()}  # fmt: skip
    assert counts == dict.fromkeys(CODECS, (200, sum(range(200))))


def test_times_bound_a_read_of_kafka(spark, kafka):
    at = datetime.datetime.fromtimestamp(T0_MS / 1000 + 3, datetime.UTC)
    wanted = f"timestamp >= timestamp'{at:%Y-%m-%d %H:%M:%S}Z'"
    narrowed = read(spark, kafka, "codecs", pushDownFilters="true").where(wanted).count()
    assert narrowed == read(spark, kafka, "codecs").where(wanted).count() == 400


def test_open_and_aborted_transactions_are_left_out(spark, kafka):
    committed = read(spark, kafka, "moved", **COMMITTED)
    assert sorted(bytes(row.value).decode() for row in committed.collect()) == GOOD
    assert read(spark, kafka, "moved").count() == 400


def test_a_stream_reads_in_bounded_triggers_and_goes_on(spark, kafka, tmp_path):
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 300, "maxBytesPerTrigger": 1_000_000}
    found = run(spark, kafka, "codecs", tmp_path, **limits)
    assert (sum(found), max(found) <= 300) == (1000, True)
    assert run(spark, kafka, "codecs", tmp_path, **limits) == []
    committed = {"startingOffsets": "earliest", **COMMITTED}
    run(spark, kafka, "moved", tmp_path / "moved", **committed)
    rows = spark.read.parquet(f"{tmp_path}/moved/out").collect()
    assert sorted(bytes(row.value).decode() for row in rows) == GOOD


def test_a_stream_copies_from_kafka_to_a_broker_of_ours(spark, kafka, broker, tmp_path):
    stream = spark.readStream.format("mainstem").options(
        **options(kafka, "moved", startingOffsets="earliest", includeHeaders="true", **COMMITTED)
    )
    kept = stream.load().select("topic", "partition", "key", "value", "headers")
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    admin.create_topics([NewTopic("moved", 3, 1)])["moved"].result(30)
    for _ in range(2):
        writer = kept.writeStream.format("mainstem").option("kafka.bootstrap.servers", broker.kafka)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination(120)
    rows = read(spark, broker.kafka, "moved").orderBy("partition", "offset").collect()
    values = [bytes(row.value).decode() for row in rows]
    assert values == [f"good-{partition}-{i}" for partition in range(2) for i in range(100)]


def test_records_that_kafka_deleted_are_named(spark, kafka):
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic("short", 1, 1)])["short"].result(60)
    producer = Producer({"bootstrap.servers": kafka})
    for i in range(20):
        producer.produce("short", str(i))
    assert producer.flush(60) == 0
    for future in admin.delete_records([TopicPartition("short", 0, 15)]).values():
        future.result(60)
    start = {"startingOffsets": json.dumps({"short": {"0": 0}})}
    with pytest.raises(PySparkException, match="offsets 0 to 14 are gone; it begins at 15"):
        read(spark, kafka, "short", **start).collect()
    assert read(spark, kafka, "short", **start, failOnDataLoss="false").count() == 5
