"""Kafka's topics as AMQP clients see them: read by their name, and published to, in transactions too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from amqp_kit import (
    OTHER,
    Inbox,
    channel_refused,
    confirming,
    connected,
    declare,
    must_get,
    new_name,
    put,
    ready,
    until,
)

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.admin import create_topic
from mainstem.testing.broker import Broker

pytestmark = pytest.mark.skipif(OTHER is not None, reason="other brokers have no topics of Kafka's")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(process=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def address(broker: Broker) -> str:
    return broker.amqp


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Iterator[Client]:
    with Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
        yield client


@pytest.fixture
def topic(kafka: Client) -> str:
    name = new_name("topic")
    create_topic(kafka, name, 1)
    return name


@pytest.fixture
def tx(connection):
    channel = connection.channel()
    channel.tx_select()
    return channel


def test_offsets_that_a_crash_skipped_are_passed_over(tmp_path):
    with Broker(data=tmp_path, process=True) as broker:
        with Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
            create_topic(client, "fast", 1, {"durability": "os"})
        with connected(broker.amqp) as sending:
            put(confirming(sending), "fast", "a")
        broker.kill()
        broker.restart()
        with connected(broker.amqp) as reading, connected(broker.amqp) as sending:
            channel = reading.channel()
            channel.basic_qos(prefetch_count=10)
            inbox = Inbox(channel, "fast", arguments={"x-stream-offset": "first"})
            assert inbox.bodies(1) == ["a"]
            put(confirming(sending), "fast", "b")
            assert inbox.bodies(2) == ["a", "b"]


def values(kafka: Client, topic: str) -> list[str]:
    """All that a Kafka client finds there."""
    place = TopicPartition(topic, 0)
    start, end = kafka.bounds([topic])[place]
    found: list[str] = []
    while start < end:
        (fetched,) = kafka.fetch({place: start})
        found += [(record.value or b"").decode() for record in fetched.check().decoded()]
        start = fetched.next_offset
    return found


def test_a_publish_with_the_name_of_a_topic_is_a_record_of_it(connection, channel, kafka, topic):
    put(channel, topic, *"ab")
    assert values(kafka, topic) == ["a", "b"]
    reading = connection.channel()
    reading.basic_qos(prefetch_count=10)
    assert Inbox(reading, topic, arguments={"x-stream-offset": "first"}).bodies(2) == ["a", "b"]


def test_records_and_messages_of_a_transaction_come_with_its_commit(channel, tx, kafka, topic):
    source, target = declare(channel), declare(channel)
    put(channel, source, "in")
    held = must_get(tx, source, ack=False)
    put(tx, topic, "a", "b")
    put(tx, target, "out")
    put(tx, topic, "c")
    tx.basic_ack(held.tag)
    tx.basic_qos(prefetch_count=0)  # answered once what was published before it has been seen
    assert (values(kafka, topic), ready(channel, target)) == ([], 0)
    tx.tx_commit()
    assert (values(kafka, topic), ready(channel, target)) == (["a", "b", "c"], 1)
    tx.close()
    assert ready(channel, source) == 0


def test_rollback_forgets_records(channel, tx, kafka, topic):
    put(tx, topic, "never")
    tx.tx_rollback()
    put(channel, topic, "between")
    put(tx, topic, "after")
    tx.tx_commit()
    assert values(kafka, topic) == ["between", "after"]


def test_a_record_that_the_topic_refuses_takes_the_whole_transaction_with_it(address, channel, kafka):
    small, queue = new_name("topic"), declare(channel)
    create_topic(kafka, small, 1, {"max.message.bytes": "1000"})
    with connected(address) as connection:
        tx = connection.channel()
        tx.tx_select()
        put(tx, queue, "never")
        put(tx, small, "fits")
        put(tx, small, "x" * 2000)
        with channel_refused(406, "PRECONDITION_FAILED - "):
            tx.tx_commit()
    assert (values(kafka, small), ready(channel, queue)) == ([], 0)


def test_a_message_above_the_topics_limit_is_refused_before_it_is_compressed(address, kafka):
    small = new_name("topic")
    create_topic(kafka, small, 1, {"max.message.bytes": "1000", "compression.type": "gzip"})
    with connected(address) as connection:
        channel = confirming(connection)
        put(channel, small, "fits")
        with channel_refused(406, "PRECONDITION_FAILED - "):
            put(channel, small, "x" * 2000)
    assert values(kafka, small) == ["fits"]


def test_small_messages_sent_together_fit_a_topic_of_small_batches(address, kafka):
    small = new_name("topic")
    create_topic(kafka, small, 1, {"max.message.bytes": "10000", "compression.type": "zstd"})
    with connected(address) as connection:
        channel = connection.channel()
        sent = [f"{number} " * 200 for number in range(300)]
        put(channel, small, *sent)
        confirming(connection)
    until(lambda: values(kafka, small) == sent, "all of them")


def test_records_of_a_committed_transaction_outlive_the_broker_and_those_of_an_open_one_do_not(tmp_path):
    name = new_name("topic")
    with Broker(process=True, data=tmp_path / "data") as first:
        with Client(ClientSettings(parse_bootstrap(first.kafka))) as kafka:
            create_topic(kafka, name, 1)
        with connected(first.amqp) as connection:
            queue = declare(confirming(connection))
            tx = connection.channel()
            tx.tx_select()
            put(tx, name, "a")
            put(tx, queue, "b")
            tx.tx_commit()
            put(tx, name, "open")
            put(tx, queue, "open")
            tx.basic_qos(prefetch_count=0)
            first.kill()
        with Broker(process=True, data=first.data) as second:
            with Client(ClientSettings(parse_bootstrap(second.kafka))) as kafka:
                assert values(kafka, name) == ["a"]
            with connected(second.amqp) as connection:
                assert ready(connection.channel(), queue) == 1
