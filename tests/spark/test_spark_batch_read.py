"""Batch reads through a real Spark: columns, bounds, topics, filters, losses."""

import datetime
import json

import pyspark
import pytest
from pyspark.errors import PySparkException
from spark_kit import T0_MS, new_name

from mainstem.client import TopicPartition, admin
from mainstem.model.records import Record

UTC = datetime.UTC


def values(frame):
    return [bytes(row.value) for row in frame.orderBy("partition", "offset").collect()]


def numbered(count, first=0):
    return [b"%d" % i for i in range(first, first + count)]


def test_rows_have_the_columns_of_sparks_own_connector(house, topic):
    house.create(topic)
    headers = (("who", b"me"), ("empty", None), ("who", b"you"))
    house.put(topic, [Record(0, T0_MS, b"k", b"v", headers), Record(0, T0_MS + 1, None, None)])
    frame = house.read(topic, includeHeaders="true")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    first, second = frame.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k", b"v", topic)
    assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
    assert first.timestamp.astimezone(UTC) == datetime.datetime.fromtimestamp(T0_MS / 1000, UTC)
    assert [(h.key, h.value and bytes(h.value)) for h in first.headers] == [
        ("who", b"me"),
        ("empty", None),
        ("who", b"you"),
    ]
    assert (second.key, second.value, second.headers, second.offset) == (None, None, None, 1)


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_is_read(house, topic, codec):
    house.create(topic)
    house.fill(topic, numbered(1000), codec=codec)
    assert values(house.read(topic)) == numbered(1000)


def test_all_partitions_are_read_and_large_ones_split(house, topic):
    house.create(topic, 3)
    for partition in range(3):
        for batch in range(10):
            house.fill(topic, numbered(100, 100 * batch), partition)
    frame = house.read(topic, minPartitions=12)
    assert frame.rdd.getNumPartitions() >= 12
    assert values(frame) == numbered(1000) * 3
    assert house.read(topic, maxRecordsPerPartition=100).rdd.getNumPartitions() == 30


def test_offsets_and_times_bound_a_read(house, topic):
    house.create(topic, 2)
    house.fill(topic, numbered(100), 0)
    house.fill(topic, numbered(100), 1)
    start, end = json.dumps({topic: {"0": 10, "1": -2}}), json.dumps({topic: {"0": 20, "1": 5}})
    assert values(house.read(topic, startingOffsets=start, endingOffsets=end)) == numbered(10, 10) + numbered(
        5
    )
    times = {"startingTimestamp": T0_MS + 90, "endingTimestamp": T0_MS + 95}
    assert values(house.read(topic, **times)) == numbered(5, 90) * 2
    each = json.dumps({topic: {"0": T0_MS + 98, "1": T0_MS + 99}})
    assert values(house.read(topic, startingOffsetsByTimestamp=each)) == numbered(2, 98) + numbered(1, 99)


def test_a_time_behind_the_last_record_is_an_error_or_the_end(house, topic):
    house.create(topic)
    house.fill(topic, numbered(3))
    late = {"startingTimestamp": T0_MS + 1000}
    with pytest.raises(PySparkException, match="has no record at or after"):
        house.read(topic, **late).collect()
    assert values(house.read(topic, **late, startingOffsetsByTimestampStrategy="latest")) == []


def test_offsets_must_name_each_partition(house, topic):
    house.create(topic, 2)
    with pytest.raises(PySparkException, match=f"{topic} partition 1 is missing"):
        house.read(topic, startingOffsets=json.dumps({topic: {"0": 0}})).collect()


def test_topics_by_list_pattern_and_assignment(house):
    stem = new_name("many")
    names = [f"{stem}-a", f"{stem}-b", f"other-{stem}"]
    for name in names:
        house.create(name, 2)
        house.fill(name, [name.encode()], 1)
    assert {row.topic for row in house.read(",".join(names)).collect()} == set(names)
    assert {row.topic for row in house.read(subscribePattern=f"{stem}-.*").collect()} == set(names[:2])
    assigned = house.read(assign=json.dumps({names[0]: [0], names[1]: [0, 1]}))
    assert [row.topic for row in assigned.collect()] == [names[1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such-topic"}, "there is no topic 'no-such-topic'"),
        ({}, "give one of subscribe, subscribePattern and assign; there is none"),
        ({"subscribe": "a", "startingOfsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "nothing lies after it"),
        ({"subscribe": "a", "columns": "value,valeu"}, "there is no column 'valeu'"),
        ({"subscribe": "a", "format": "xml"}, "format is one of raw, text, json, csv, avro, not 'xml'"),
        ({"subscribe": "a", "format": "csv"}, "schema is missing"),
        ({"subscribe": "a", "format": "avro"}, "avroSchema is missing"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"subscribe": "a", "isolationLevel": "committed"}, "isolationLevel is read_committed or"),
    ],
)
def test_a_wrong_option_is_named(house, options, message):
    with pytest.raises(PySparkException, match=message):
        house.read(**options).collect()


def test_only_the_columns_asked_for_travel(house, topic):
    house.create(topic)
    house.fill(topic, numbered(5))
    frame = house.read(topic, columns="offset, value")
    assert frame.columns == ["offset", "value"]
    assert [row.offset for row in frame.orderBy("offset").collect()] == [0, 1, 2, 3, 4]


@pytest.fixture
def pushing(spark):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield {"pushDownFilters": "true"}
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_filters_on_places_narrow_what_is_read(house, topic, pushing):
    house.create(topic, 3)
    for partition in range(3):
        house.fill(topic, numbered(1000), partition)
    frame = house.read(topic, **pushing).where("partition = 1 and offset >= 10 and offset < 20")
    assert values(frame) == numbered(10, 10)
    assert frame.rdd.getNumPartitions() == 1
    assert house.read(topic, **pushing).where("offset = 7 and value is not null").count() == 3
    assert house.read(topic, **pushing).where(f"topic = '{topic}x'").count() == 0
    assert house.read(topic).where("offset = 7").count() == 3


def test_filters_on_time_begin_at_the_first_record_that_can_match(house, topic, pushing):
    """Times of a partition are in any order: only what lies before that record is left out."""
    house.create(topic, 2)
    minutes = [0, 5, 1, 9, 2, 8, 3, 7]
    for minute in minutes:  # a batch each
        house.put(topic, [Record(0, T0_MS + minute * 60_000, None, b"%d" % minute)], 0)
    house.fill(topic, [b"old"], 1)
    at = datetime.datetime.fromtimestamp(T0_MS / 1000, UTC)
    at = {
        minute: f"timestamp'{at + datetime.timedelta(minutes=minute):%Y-%m-%d %H:%M:%S}Z'"
        for minute in range(12)
    }

    def found(condition):
        frame = house.read(topic, **pushing).where(condition)
        assert values(house.read(topic).where(condition)) == values(frame)
        return values(frame), scanned(frame)

    assert found(f"timestamp >= {at[7]}") == ([b"9", b"8", b"7"], 5)
    assert found(f"timestamp > {at[8]}") == ([b"9"], 5)
    assert found(f"timestamp = {at[2]}") == ([b"2"], 7)
    assert found(f"timestamp < {at[2]}") == ([b"0", b"1", b"old"], 9)
    assert found(f"timestamp >= {at[3]} and timestamp <= {at[7]}") == ([b"5", b"3", b"7"], 7)
    assert found(f"timestamp > {at[10]}") == ([], 0)
    assert found("timestamp > timestamp'1960-01-01 00:00:00Z'")[1] == 9
    typed = house.read(topic, **pushing, format="text", metadata="timestamp, offset, partition")
    typed = typed.where(f"_timestamp >= {at[7]} and _partition in (0, 5)")
    assert scanned(typed) == 5
    assert sorted(row.value for row in typed.collect()) == ["7", "8", "9"]


def scanned(frame):
    """How many rows came out of the source, before Spark filtered them."""
    plan = frame._jdf.queryExecution().executedPlan()
    frame._jdf.queryExecution().toRdd().count()
    found = []

    def look(node):
        metrics = node.metrics()
        if not node.children().size() and metrics.contains("numOutputRows"):
            found.append(metrics.apply("numOutputRows").value())
        for index in range(node.children().size()):
            look(node.children().apply(index))

    look(plan)
    return sum(found)


def test_a_field_of_a_value_is_not_taken_for_a_place(house, topic, pushing):
    house.create(topic)
    house.fill(topic, [b'{"offset": 70, "partition": 3}', b'{"offset": 0, "partition": 3}'])
    frame = house.read(topic, **pushing, format="json", schema="offset BIGINT, partition INT")
    assert frame.where("offset = 70 and partition = 3").count() == 1


def test_committed_reads_leave_out_aborted_transactions(house, topic):
    from confluent_kafka import Producer

    house.create(topic)
    for outcome in ("abort", "commit"):
        producer = Producer(
            {"bootstrap.servers": house.address, "transactional.id": new_name("tx"), "linger.ms": 0}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, f"{outcome}-{i}")
        producer.flush(30)
        if outcome == "abort":
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    committed = [b"commit-%d" % i for i in range(10)]
    assert values(house.read(topic, **{"kafka.isolation.level": "read_committed"})) == committed
    assert values(house.read(topic)) == [b"abort-%d" % i for i in range(10)] + committed


def test_compaction_leaves_holes_that_reads_pass(house, topic):
    house.create(topic)
    house.fill(topic, numbered(10))
    with house.client() as client:
        admin.delete_records(client, {TopicPartition(topic, 0): 4})
    assert values(house.read(topic)) == numbered(6, 4)


def test_deleted_records_are_an_error_unless_losses_are_allowed(house, topic):
    house.create(topic)
    house.fill(topic, numbered(10))
    with house.client() as client:
        admin.delete_records(client, {TopicPartition(topic, 0): 4})
    start = {"startingOffsets": json.dumps({topic: {"0": 0}})}
    with pytest.raises(PySparkException, match="Records were deleted.*failOnDataLoss=false"):
        house.read(topic, **start).collect()
    assert values(house.read(topic, **start, failOnDataLoss="false")) == numbered(6, 4)


def test_an_empty_topic_has_no_rows(house, topic):
    house.create(topic, 4)
    assert house.read(topic).count() == 0


def test_large_and_many_batches_come_whole(house, topic):
    house.create(topic)
    for batch in range(30):
        house.fill(topic, [b"%d" % i * 20 for i in range(3000)], first_ms=T0_MS + 3000 * batch)
    frame = house.read(topic)
    assert frame.count() == 90_000
    assert frame.selectExpr("min(offset)", "max(offset)", "count(distinct offset)").first() == (
        0,
        89_999,
        90_000,
    )


def test_workers_do_not_compile_sparks_zip_anew(spark):
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert found == [pyspark.__file__]
