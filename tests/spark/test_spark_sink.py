"""Writing from Spark: rows become records, a batch appears whole, and once, whatever is killed."""

import os
import signal
import socket
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from spark_kit import House

from mainstem.client import EARLIEST, Client, ClientSettings, TopicPartition, admin, parse_bootstrap, sinks
from mainstem.model.batch import NO_CODEC
from mainstem.model.records import Record, encode_batch
from mainstem.spark.writing import Stager, WriteOptions
from mainstem.testing import Broker


def records(house, topic, partitions=1):
    found = []
    with house.client() as client:
        for partition in range(partitions):
            place, offset = TopicPartition(topic, partition), 0
            while True:
                (fetched,) = client.fetch({place: offset}, max_wait_ms=10, partition_max_bytes=8 << 20)
                if not fetched.check().records:
                    break
                found += [(partition, record) for record in fetched.decoded(committed=True)]
                offset = fetched.next_offset
    return found


def save(frame, house, **options):
    frame.write.format("mainstem").options(**house.options(**options)).mode("append").save()


def test_rows_become_records(house, topic):
    house.create(topic, 3)
    frame = house.spark.sql(
        "SELECT 'k' AS key, 'text' AS value, 2 AS partition, "
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
    )
    save(frame, house, topic=topic)
    ((partition, record),) = records(house, topic, 3)
    assert (partition, record.key, record.value, record.headers) == (2, b"k", b"text", (("h", b"x"),))


def test_records_have_the_time_of_their_row_or_the_present(house, topic):
    house.create(topic)
    frame = house.spark.sql(
        "SELECT 'v' AS value, if(id = 0, timestamp_millis(1700000000123), NULL) AS timestamp "
        "FROM range(0, 2, 1, 1)"
    )
    before_ms = time.time_ns() // 1_000_000
    save(frame, house, topic=topic)
    (_, told), (_, untold) = records(house, topic)
    assert told.timestamp_ms == 1_700_000_000_123
    assert before_ms <= untold.timestamp_ms <= time.time_ns() // 1_000_000


def test_staged_records_of_long_ago_stay_until_they_are_published(topic):
    """The staging topic keeps a day, and these are older than that from the beginning."""
    with Broker({"merge.retention_check_interval_ms": 100}) as broker:
        settings = ClientSettings(parse_bootstrap(broker.kafka))
        with Client(settings) as client:
            admin.create_topic(client, topic, 1, {"retention.ms": "-1"})
            admin.create_topic(client, f"{topic}-old", 1)
            stager = Stager(client, WriteOptions(settings, topic, NO_CODEC, 5.0))
            then = pa.array([1_600_000_000_000_000], pa.timestamp("us", tz="UTC"))
            stager.add(pa.RecordBatch.from_arrays([pa.array(["v"]), then], ["value", "timestamp"]))
            staged = stager.finish()
            # Two rounds of retention have come by once it has taken two records one after the other.
            old = TopicPartition(f"{topic}-old", 0)
            for taken in (1, 2):
                client.produce({old: encode_batch([Record(0, 1_600_000_000_000, None, b"old")])})
                deadline = time.monotonic() + 30
                while client.offsets({old: EARLIEST})[old].offset < taken:
                    assert time.monotonic() < deadline, "retention did not come by"
                    time.sleep(0.01)
            assert sinks.publish(client, "sink", 0, staged)
            (fetched,) = client.fetch({TopicPartition(topic, 0): 0})
            assert [record.timestamp_ms for record in fetched.decoded()] == [1_600_000_000_000]


def test_keys_go_where_kafkas_clients_send_them(house, topic):
    from confluent_kafka import Producer

    house.create(topic, 4)
    frame = house.spark.sql("SELECT CAST(id AS STRING) AS key, 'spark' AS value FROM range(50)")
    save(frame, house, topic=topic)
    producer = Producer({"bootstrap.servers": house.address, "partitioner": "murmur2_random"})
    for i in range(50):
        producer.produce(topic, b"client", str(i).encode())
    producer.flush(30)
    where = {}
    for partition, record in records(house, topic, 4):
        where.setdefault(record.key, set()).add(partition)
    assert len(where) == 50
    assert all(len(partitions) == 1 for partitions in where.values())


def test_each_row_may_name_its_topic(house, topic):
    house.create(f"{topic}-a")
    house.create(f"{topic}-b")
    frame = house.spark.sql(
        f"SELECT concat('{topic}-', if(id % 2 = 0, 'a', 'b')) AS topic, string(id) AS value FROM range(10)"
    )
    save(frame, house)
    assert sorted(r.value for _, r in records(house, f"{topic}-a")) == [b"0", b"2", b"4", b"6", b"8"]
    assert len(records(house, f"{topic}-b")) == 5


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("SELECT 1 AS id", {"topic": "t"}, "there is no column 'value'"),
        ("SELECT 'v' AS value", {}, "no topic"),
        ("SELECT 'v' AS value", {"topic": "t", "writer": "w"}, "writer .* goes with batchId"),
        ("SELECT 'v' AS value, 1 AS id", {"topic": "t"}, "column 'id' is not written"),
        (
            "SELECT 'v' AS value",
            {"topic": "t", "kafka.compression.type": "rar"},
            "compression.type is one of",
        ),
        ("SELECT 'v' AS value, 99 AS partition", {"topic": "sink-errors"}, "partition 99 of topic"),
        ("SELECT 1L AS value", {"topic": "t"}, "column 'value' is string or binary, not bigint"),
    ],
)
def test_a_wrong_write_is_explained(house, query, options, message):
    with pytest.raises(PySparkException, match=message):
        save(house.spark.sql(query), house, **options)


def test_a_write_that_fails_leaves_nothing(house, topic):
    house.create(topic, 2)
    frame = house.spark.sql(
        "SELECT string(id) AS value, if(id = 999, 99, 0) AS partition FROM range(0, 1000, 1, 4)"
    )
    with pytest.raises(PySparkException):
        save(frame, house, topic=topic)
    assert records(house, topic, 2) == []


def copy(house, source, target, folder, **trigger):
    stream = house.stream(source, startingOffsets="earliest", maxOffsetsPerTrigger=300, columns="key,value")
    writer = stream.writeStream.format("mainstem").options(**house.options(topic=target))
    return writer.option("checkpointLocation", str(folder)).trigger(**trigger).start()


def test_a_stream_is_copied_in_batches_that_appear_whole(house, topic, tmp_path):
    source, target = f"{topic}-in", f"{topic}-out"
    house.create(source, 2)
    house.create(target, 2)
    for partition in range(2):
        house.fill(source, [b"%d-%d" % (partition, i) for i in range(1000)], partition, key=b"%d" % partition)
    query = copy(house, source, target, tmp_path, availableNow=True)
    query.awaitTermination(90)
    assert sorted(r.value for _, r in records(house, target, 2)) == sorted(
        b"%d-%d" % (partition, i) for partition in range(2) for i in range(1000)
    )


def test_a_checkpoint_that_is_older_than_the_sink_is_refused(house, topic, tmp_path):
    """Its next batch was published already, and others after it: to write it again would be wrong."""
    source, target = f"{topic}-in", f"{topic}-out"
    house.create(source)
    house.create(target)
    house.fill(source, [b"%d" % i for i in range(900)])
    copy(house, source, target, tmp_path / "c", availableNow=True).awaitTermination(90)
    for kind in ("commits", "offsets"):
        for name in ("1", ".1.crc", "2", ".2.crc"):
            (tmp_path / "c" / kind / name).unlink(missing_ok=True)
    query = copy(house, source, target, tmp_path / "c", availableNow=True)
    with pytest.raises(StreamingQueryException, match="2 was published last, so 3 is next"):
        query.awaitTermination(90)
    assert len(records(house, target)) == 900


def test_a_broker_that_is_away_for_a_while_is_waited_for(spark, topic, tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    source, target = f"{topic}-in", f"{topic}-out"
    with Broker(process=True, listen={"kafka": f"127.0.0.1:{port}"}) as broker:
        house = House(spark, broker.kafka, broker)
        house.create(source)
        house.create(target)
        for first in range(0, 3000, 100):
            house.fill(source, [b"%d" % i for i in range(first, first + 100)])
        query = copy(house, source, target, tmp_path, availableNow=True)
        while len(records(house, target)) < 300:
            assert query.isActive, query.exception()
            time.sleep(0.02)
        broker.kill()
        with socket.create_server(("127.0.0.1", port)) as nobody:
            nobody.settimeout(60)
            for _ in range(5):  # came, were sent away, and come again
                nobody.accept()[0].close()
        broker.start()
        query.awaitTermination(90)
        assert not query.isActive
        assert [int(r.value) for _, r in records(house, target)] == list(range(3000))


def test_a_checkpoint_one_batch_behind_is_refused_if_its_batch_is_another(house, topic, tmp_path):
    source, target = f"{topic}-in", f"{topic}-out"
    house.create(source)
    house.create(target)
    house.fill(source, [b"%d" % i for i in range(250)])
    copy(house, source, target, tmp_path / "c", availableNow=True).awaitTermination(90)
    for kind in ("commits", "offsets"):
        for name in ("0", ".0.crc"):
            (tmp_path / "c" / kind / name).unlink(missing_ok=True)
    house.fill(source, [b"%d" % i for i in range(250, 300)])
    query = copy(house, source, target, tmp_path / "c", availableNow=True)
    with pytest.raises(StreamingQueryException, match="was published with 250 records, and has 300 now"):
        query.awaitTermination(90)
    assert len(records(house, target)) == 250


def in_batches(house, source, folder, publish):
    stream = house.stream(source, startingOffsets="earliest", maxOffsetsPerTrigger=100, columns="value")
    writer = stream.writeStream.foreachBatch(publish).option("checkpointLocation", str(folder))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(90)
    assert query.exception() is None


def test_a_function_may_write_its_batches_to_several_topics_and_leave_some_out(house, topic, tmp_path):
    source, one, other = (f"{topic}-{name}" for name in ("in", "one", "other"))
    for name in (source, one, other):
        house.create(name)
    house.fill(source, [b"%d" % i for i in range(300)])
    calls = []

    def publish(frame, batch):
        calls.append(batch)
        if batch == 1:
            return
        save(frame, house, topic=one, batchId=batch)
        save(frame, house, topic=other, batchId=batch)
        save(frame.limit(10), house, topic=other, batchId=batch, writer="sample")

    def written(name):
        return sorted(int(record.value) for _, record in records(house, name))

    in_batches(house, source, tmp_path / "c", publish)
    kept = [*range(100), *range(200, 300)]
    assert calls == [0, 1, 2]
    assert written(one) == kept
    sampled = sorted([*kept, *range(10), *range(200, 210)])
    assert written(other) == sampled
    # As if the driver had died before Spark could note that the last batch was done.
    for name in ("2", ".2.crc"):
        (tmp_path / "c" / "commits" / name).unlink(missing_ok=True)
    in_batches(house, source, tmp_path / "c", publish)
    assert calls == [0, 1, 2, 2]
    assert (written(one), written(other)) == (kept, sampled)


def test_a_batch_without_rows_has_its_number(house, topic, tmp_path):
    """Otherwise the next one would be refused, as there is a gap before it."""
    source, target = f"{topic}-in", f"{topic}-out"
    house.create(source)
    house.create(target)
    for number, condition in enumerate(("true", "false", "true")):
        house.fill(source, [b"%d" % number] * 10)
        stream = house.stream(source, startingOffsets="earliest", columns="value").where(condition)
        writer = stream.writeStream.format("mainstem").options(**house.options(topic=target))
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination(90)
        assert query.exception() is None
    assert sorted(record.value for _, record in records(house, target)) == [b"0"] * 10 + [b"2"] * 10


DRIVER = """
import sys
from pyspark.sql import SparkSession
address, source, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false") \\
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
print("started", flush=True)
stream = spark.readStream.format("mainstem").option("kafka.bootstrap.servers", address) \\
    .option("subscribe", source).option("startingOffsets", "earliest") \\
    .option("maxOffsetsPerTrigger", 500).option("columns", "key,value").load()
query = stream.writeStream.format("mainstem").option("kafka.bootstrap.servers", address) \\
    .option("topic", target).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
print("done", flush=True)
"""


def test_a_killed_driver_loses_and_repeats_nothing(house, topic, tmp_path):
    source, target = f"{topic}-in", f"{topic}-out"
    house.create(source)
    house.create(target, 2)
    for batch in range(10):
        house.fill(source, [b"%d" % i for i in range(1000 * batch, 1000 * batch + 1000)], key=b"k%d" % batch)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), house.address, source, target, str(tmp_path / "checkpoint")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    for wanted in (1, 3000, None):
        path = tmp_path / f"driver-{wanted}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 90
        while process.poll() is None and (wanted is None or len(records(house, target, 2)) < wanted):
            assert time.monotonic() < deadline, path.read_text()[-2000:]
            time.sleep(0.02)
        if wanted is not None:
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == (0 if wanted is None else -signal.SIGKILL)
    assert sorted(int(r.value) for _, r in records(house, target, 2)) == list(range(10_000))
