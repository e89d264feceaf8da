"""What goes wrong around a query has a defined outcome, and a message that says what to do."""

import json
import time
from collections import Counter

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from test_spark_stream_read import Copy, as_dict, numbered, wait_for

from mainstem.client import TopicPartition, admin
from mainstem.model.errors import DataLost
from mainstem.spark.source import MainstemSource

pytestmark = pytest.mark.timeout(300)  # they wait for conditions, with limits of their own

OUTAGE_S = 10


def copy_of(house, folder, topic, start="earliest", **options):
    return Copy(house, folder, lambda: house.stream(topic, startingOffsets=start, **options))


def delete(house, topic):
    with house.client() as client:
        admin.delete_topic(client, topic)


class Running:
    """A query that goes on until it is stopped."""

    def __init__(self, query):
        self.query = query

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.query.stop()

    def rows(self):
        return sum(as_dict(progress)["numInputRows"] for progress in self.query.recentProgress)

    def wait(self, rows):
        wait_for(lambda: self.rows() >= rows or not self.query.isActive)
        assert self.query.exception() is None
        assert self.rows() == rows

    def ends_with(self, message):
        with pytest.raises(StreamingQueryException, match=message):
            self.query.awaitTermination(60)


def running(copy):
    return Running(copy.start(processingTime="200 milliseconds"))


# --- topics and partitions ------------------------------------------------------------------------------


def test_a_topic_that_is_deleted_while_a_query_runs_ends_it(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, numbered(10))
    copy = copy_of(house, tmp_path, topic)
    with running(copy) as run:
        run.wait(10)
        delete(house, topic)
        run.ends_with(f"there is no topic '{topic}'")
    house.create(topic)
    house.fill(topic, numbered(2, 100))
    with pytest.raises(
        StreamingQueryException, match="there is less than was read already.*failOnDataLoss=false"
    ):
        copy.run()
    again = copy_of(house, tmp_path, topic, failOnDataLoss="false")
    again.run()
    assert sorted(again.values()) == sorted(numbered(10) + numbered(2, 100))


@pytest.mark.parametrize("careful", ["true", "false"])
def test_a_topic_that_is_made_anew_between_triggers_is_noticed_even_if_it_holds_as_much(
    house, topic, careful
):
    """Asked as Spark asks, so that both happen between two triggers."""
    house.create(topic)
    house.fill(topic, numbered(10))
    source = MainstemSource(
        house.options(subscribe=topic, startingOffsets="earliest", failOnDataLoss=careful)
    )
    reader = source.streamReader(StructType.fromDDL(source.schema()))
    begin, seen = reader.initialOffset(), {topic: {"0": 10}}
    assert reader.latestOffset(begin, ReadAllAvailable()) == seen
    assert [len(piece.range) for piece in reader.partitions(begin, seen)] == [10]
    delete(house, topic)
    house.create(topic)
    house.fill(topic, numbered(10))
    if careful == "true":
        with pytest.raises(DataLost, match="the topic was deleted and made anew"):
            reader.latestOffset(seen, ReadAllAvailable())
    else:
        assert reader.latestOffset(seen, ReadAllAvailable()) == seen  # no news to Spark
        house.fill(topic, numbered(5, 10))
        assert reader.latestOffset(seen, ReadAllAvailable()) == {topic: {"0": 15}}
        (piece,) = reader.partitions(seen, {topic: {"0": 15}})
        assert (piece.range.start, piece.range.end) == (0, 15)
        assert [len(piece.range) for piece in reader.partitions({topic: {"0": 15}}, {topic: {"0": 15}})] == []
    reader.stop()


def test_partitions_that_are_added_are_read_from_their_beginning(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, numbered(3))
    # Of which it names only those that were there at the start.
    copy = copy_of(house, tmp_path, topic, start=json.dumps({topic: {"0": 0}}))
    with running(copy) as run:
        run.wait(3)
        with house.client() as client:
            admin.add_partitions(client, topic, 2)
        house.fill(topic, numbered(4, 10), 1)
        run.wait(7)
    with house.client() as client:
        admin.add_partitions(client, topic, 3)
    house.fill(topic, numbered(2, 20), 2)
    assert sum(copy.run()) == 2
    assert copy.values() == numbered(3) + numbered(4, 10) + numbered(2, 20)


def test_retention_that_passed_the_checkpoint_is_an_error_unless_allowed(house, topic, tmp_path):
    house.create(topic)
    house.fill(topic, numbered(10))
    copy = copy_of(house, tmp_path, topic)
    copy.run()
    house.fill(topic, numbered(10, 10))
    with house.client() as client:
        admin.delete_records(client, {TopicPartition(topic, 0): 15})
    lost = f"{topic} partition 0: offsets 10 to 14 are gone; it begins at 15 and ends before 20"
    with pytest.raises(StreamingQueryException, match=f"{lost}.*failOnDataLoss=false"):
        copy.run()
    again = copy_of(house, tmp_path, topic, failOnDataLoss="false")
    again.run()
    assert again.values() == numbered(10) + numbered(5, 15)


# --- values ----------------------------------------------------------------------------------------------


def test_fields_that_come_go_and_change_their_type(house, topic, tmp_path):
    """New ones are ignored, missing ones null, others set aside; a query goes on with a new schema."""
    house.create(topic)

    def run(schema):
        stream = house.stream(topic, startingOffsets="earliest", format="json", schema=schema)
        writer = stream.writeStream.format("json").option("checkpointLocation", f"{tmp_path}/checkpoint")
        query = writer.option("path", f"{tmp_path}/out").trigger(availableNow=True).start()
        query.awaitTermination(60)

    def found():
        rows = house.spark.read.schema("id INT, name STRING, size INT").json(f"{tmp_path}/out").collect()
        return sorted(tuple(row) for row in rows)

    house.fill(topic, [b'{"id": 1, "name": "a"}'])
    run("id INT, name STRING")
    house.fill(topic, [b'{"id": 2, "name": "b", "size": 7}', b'{"id": 3}', b'{"id": "four", "name": "d"}'])
    run("id INT, name STRING")
    assert found() == [(1, "a", None), (2, "b", None), (3, None, None)]
    (dead,) = house.read(f"{topic}.dead", includeHeaders="true").collect()
    assert bytes(dead.value) == b'{"id": "four", "name": "d"}'
    assert b"id" in bytes(dead.headers[0].value)
    house.fill(topic, [b'{"id": 5, "name": "e", "size": 8}'])
    run("id INT, name STRING, size INT")
    assert found()[-1] == (5, "e", 8)


def test_poison_does_not_stop_a_query_and_is_set_aside_with_its_place(house, topic, tmp_path):
    house.create(topic)
    poison = [b"\xff\xfe", b"{" * 10_000, b"[" * 10_000, b'{"id": 1e999}', b"\x00" * 1000, b'{"id": 1', b'""']
    good = [b'{"id": %d}' % i for i in range(50)]
    mixed = [value for pair in zip(good, poison * 8, strict=False) for value in pair]
    house.fill(topic, mixed)
    copy = copy_of(house, tmp_path, topic, format="json", schema="id BIGINT", metadata="offset")
    with running(copy) as run:
        run.wait(50)
        house.fill(topic, [b'{"id": 50}'])
        run.wait(51)
    rows = house.spark.read.parquet(f"{tmp_path}/out").orderBy("id").collect()
    assert [row.id for row in rows] == list(range(51))
    dead = house.read(f"{topic}.dead", includeHeaders="true").collect()
    places = {int(bytes(one.value)) for row in dead for one in row.headers if one.key == "mainstem.offset"}
    assert {mixed[offset] for offset in places} == set(poison)
    assert len(places) == len(mixed) - len(good)


# --- a broker that is away ---------------------------------------------------------------------------------


def copying(house, folder, topic, **options):
    stream = house.stream(topic, startingOffsets="earliest", **options).select("key", "value")
    writer = stream.writeStream.format("mainstem").options(**house.options(topic=f"{topic}-copy", **options))
    writer = writer.option("checkpointLocation", str(folder)).trigger(processingTime="200 milliseconds")
    return Running(writer.start())


def copied(house, topic):
    return Counter(bytes(row.value) for row in house.read(f"{topic}-copy").collect())


def test_a_broker_that_is_away_for_a_while_is_waited_for_by_reads_and_writes(own_house, topic, tmp_path):
    own_house.create(topic, 2)
    own_house.create(f"{topic}-copy", 2)
    own_house.fill(topic, numbered(500))
    with copying(own_house, tmp_path, topic) as run:
        run.wait(500)
        own_house.broker.kill()
        back = time.monotonic() + OUTAGE_S
        wait_for(lambda: time.monotonic() > back or not run.query.isActive)
        assert run.query.isActive
        own_house.broker.restart()
        own_house.fill(topic, numbered(500, 500), 1)
        run.wait(1000)
    assert copied(own_house, topic) == Counter(numbered(1000))


def test_a_broker_that_stays_away_ends_the_query_which_goes_on_later(own_house, topic, tmp_path):
    own_house.create(topic)
    own_house.create(f"{topic}-copy")
    own_house.fill(topic, numbered(500))
    with copying(own_house, tmp_path, topic, brokerTimeoutMs=2000) as run:
        run.wait(500)
        own_house.broker.kill()
        run.ends_with(own_house.address)
    own_house.broker.restart()
    own_house.fill(topic, numbered(500, 500))
    with copying(own_house, tmp_path, topic, brokerTimeoutMs=2000) as run:
        run.wait(500)
    assert copied(own_house, topic) == Counter(numbered(1000))
