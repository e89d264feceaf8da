"""What tasks stage fits the topics that it is for, and dead letters arrive whatever they are."""

import os
import time

import pyarrow as pa
import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, admin, codes, parse_bootstrap, sinks
from mainstem.client.producing import Producer
from mainstem.model.batch import LZ4, NO_CODEC
from mainstem.model.errors import BrokerRefused
from mainstem.model.records import Record
from mainstem.spark.dead_letters import publish, send
from mainstem.spark.typed import BadRecord
from mainstem.spark.writing import Stager, WriteOptions
from mainstem.testing import Broker
from mainstem.wire.kafka.configs import DescribeConfigsRequest


@pytest.fixture(scope="module")
def settings():
    with Broker() as broker:
        yield ClientSettings(parse_bootstrap(broker.kafka))


@pytest.fixture
def client(settings):
    with Client(settings) as client:
        yield client


def records(client, topic, partitions=1):
    found = []
    for partition in range(partitions):
        place, offset = TopicPartition(topic, partition), 0
        while True:
            (fetched,) = client.fetch({place: offset}, max_wait_ms=10, partition_max_bytes=8 << 20)
            if not fetched.check().records:
                break
            found += list(fetched.decoded())
            offset = fetched.next_offset
    return found


def staged(client, settings, topic, values, codec=NO_CODEC):
    stager = Stager(client, WriteOptions(settings, topic, codec, 5.0))
    stager.add(pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"]))
    return stager.finish()


def test_a_large_record_behind_small_ones_makes_no_batch_too_large(client, settings):
    admin.create_topic(client, "behind", 1)
    values = [b"x" * 500_000, b"y" * 1_000_000, b"z"]
    assert sinks.publish(client, "behind", 0, staged(client, settings, "behind", values))
    assert [record.value for record in records(client, "behind")] == values


@pytest.mark.parametrize("codec", [NO_CODEC, LZ4])
def test_batches_are_as_small_as_their_topic_wants_them(client, settings, codec):
    topic = f"small-{codec}"
    admin.create_topic(client, topic, 2, {"max.message.bytes": "262144"})
    values = [os.urandom(9_973) for _ in range(200)]
    assert sinks.publish(client, topic, 0, staged(client, settings, topic, values, codec))
    assert sorted(record.value for record in records(client, topic, 2)) == sorted(values)


def test_a_record_that_no_batch_of_its_topic_can_hold_is_told_with_both_sizes(client, settings):
    admin.create_topic(client, "tiny", 1, {"max.message.bytes": "1000"})
    with pytest.raises(BrokerRefused, match="topic 'tiny'.*max.message.bytes is 1000"):
        sinks.publish(client, "tiny", 0, staged(client, settings, "tiny", [b"x" * 2000]))


def test_a_producer_keeps_to_what_its_topic_takes(client):
    admin.create_topic(client, "sent", 2, {"max.message.bytes": "100000"})
    sizes = [60_000, 60_000, 99_900, 1, 1, 99_000]
    headers = tuple(("é" * 10, None) for _ in range(10))
    producer = Producer(client, "sent")
    for size in sizes:
        producer.add(Record(0, 1_000, None, b"x" * size))
    for _ in range(1_000):  # mostly headers
        producer.add(Record(0, 1_000, None, b"", headers))
    producer.flush()
    found = [len(record.value) for record in records(client, "sent", 2)]
    assert sorted(found) == sorted(sizes + [0] * 1_000)


def test_a_dead_letter_that_is_too_large_arrives_without_its_content(client):
    admin.create_topic(client, "dead", 1, {"max.message.bytes": "100000"})
    bad = [
        BadRecord(b"k", b"small", 7, 1_600_000_000_000, "because " * 10_000),
        BadRecord(b"k", b"x" * 100_000, 8, 1_600_000_000_000, "not json"),
        BadRecord(b"y" * 100_000, b"z", 9, 1_600_000_000_000, "not json"),
    ]
    before_ms = time.time_ns() // 1_000_000
    send(client, "dead", TopicPartition("orders", 3), bad)
    whole, no_value, nothing = sorted(
        records(client, "dead"), key=lambda one: dict(one.headers)["mainstem.offset"]
    )
    assert (whole.key, whole.value) == (b"k", b"small")
    headers = dict(whole.headers)
    assert headers.pop("mainstem.reason") == b"because " * 125
    assert headers == {
        "mainstem.topic": b"orders",
        "mainstem.partition": b"3",
        "mainstem.offset": b"7",
        "mainstem.timestamp": b"1600000000000",
    }
    assert whole.timestamp_ms >= before_ms
    assert (no_value.key, no_value.value) == (b"k", None)
    assert dict(no_value.headers)["mainstem.left_out"] == b"value of 100000 bytes"
    assert (nothing.key, nothing.value) == (None, None)
    assert dict(nothing.headers)["mainstem.left_out"] == b"key of 100000 bytes, value of 1 bytes"


def test_a_dead_letter_arrives_where_it_is_not_told_what_the_topic_takes(client):
    """As whoever may write a topic need not be told how it is set."""
    admin.create_topic(client, "untold", 1, {"max.message.bytes": "1000"})

    class Unknowing(Client):
        def ask(self, message, answer, **how):
            if isinstance(message, DescribeConfigsRequest):
                raise codes.refusal(29, "untold")
            return super().ask(message, answer, **how)

    with Unknowing(client.settings) as other:
        bad = [BadRecord(None, b"x" * size, size, 0, "not json") for size in (10, 2_000, 20)]
        send(other, "untold", TopicPartition("orders", 0), bad)
        publish(other, "untold", {TopicPartition("orders", 0): bad}, "untold", 0, 5.0)
    assert [record.value for record in records(client, "untold")] == [b"x" * 10, None, b"x" * 20] * 2


def test_dead_letters_of_a_batch_are_published_once(client):
    admin.create_topic(client, "once", 1, {"max.message.bytes": "100000"})
    bad = [BadRecord(b"k", b"x" * size, size, 0, "not json") for size in (10, 200_000)]
    found = {TopicPartition("orders", 3): bad, TopicPartition("orders", 4): bad[:1]}
    for batch in (0, 0, 4, 4):
        publish(client, "once", found, "once-dead", batch, 5.0)
    told = records(client, "once")
    assert [len(record.value or b"") for record in told] == [10, 0, 10] * 2
    places = [(dict(one.headers)["mainstem.partition"], dict(one.headers)["mainstem.offset"]) for one in told]
    assert places == [(b"3", b"10"), (b"3", b"200000"), (b"4", b"10")] * 2
