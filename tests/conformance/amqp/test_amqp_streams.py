"""Queues of type stream: read from anywhere, as often as wanted, by everyone."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from amqp_kit import Inbox, channel_refused, connection_refused, declare, new_name, put, ready, until


@pytest.fixture
def stream(channel):
    return declare(channel, "stream", x_queue_type="stream")


def reader(connection, stream, offset=None, prefetch=100):
    channel = connection.channel()
    channel.basic_qos(prefetch_count=prefetch)
    arguments = {} if offset is None else {"x-stream-offset": offset}
    return Inbox(channel, stream, arguments=arguments)


def test_every_reader_gets_every_message_with_its_offset(connection, other_connection, channel, stream):
    put(channel, stream, *"abc")
    for each in (connection, other_connection):
        got = reader(each, stream, "first").wait(3)
        assert [delivery.body for delivery in got] == ["a", "b", "c"]
        assert [delivery.properties.headers["x-stream-offset"] for delivery in got] == [0, 1, 2]
        assert not any(delivery.again for delivery in got)


def test_acks_make_room_and_remove_nothing(connection, channel, stream):
    put(channel, stream, *"abcdef")
    inbox = reader(connection, stream, "first", prefetch=2)
    for count in (2, 4, 6):
        inbox.channel.basic_ack(inbox.wait(count)[-1].tag, multiple=True)
    assert reader(connection, stream, "first").bodies(6) == list("abcdef")


def test_reading_starts_with_what_comes_next_unless_told_otherwise(connection, channel, stream):
    put(channel, stream, "before")
    inboxes = [reader(connection, stream, offset) for offset in (None, "next")]
    put(channel, stream, "after")
    assert [inbox.bodies(1) for inbox in inboxes] == [["after"], ["after"]]


def test_reading_starts_at_an_offset(connection, channel, stream):
    put(channel, stream, *"abcd")
    assert reader(connection, stream, 2).bodies(2) == ["c", "d"]


def test_reading_starts_at_a_time(connection, channel, stream):
    put(channel, stream, *"ab")
    past = datetime.now(UTC) - timedelta(hours=1)
    assert reader(connection, stream, past).bodies(2) == ["a", "b"]
    assert reader(connection, stream, "1h").bodies(2) == ["a", "b"]


def test_properties_and_headers_are_kept(connection, channel, stream):
    put(channel, stream, "m", headers={"mine": "x"}, message_id="id", content_type="text/plain")
    (delivery,) = reader(connection, stream, "first").wait(1)
    assert (delivery.properties.message_id, delivery.properties.content_type) == ("id", "text/plain")
    assert delivery.properties.headers["mine"] == "x"


def test_a_stream_is_bound_and_fed_like_any_queue(connection, channel, stream):
    channel.queue_bind(stream, "amq.topic", f"{stream}.#")
    channel.basic_publish("amq.topic", f"{stream}.a", b"m", mandatory=True)
    (delivery,) = reader(connection, stream, "first").wait(1)
    assert (delivery.body, delivery.method.exchange) == ("m", "amq.topic")
    assert delivery.method.routing_key == f"{stream}.a"


def test_messages_are_counted_and_stay(connection, channel, stream):
    put(channel, stream, *"abc")
    reader(connection, stream, "first").wait(3)
    until(lambda: ready(channel, stream) == 3)


def test_an_old_stream_is_read_in_order_to_its_end(connection, channel, stream):
    publisher = connection.channel()
    put(publisher, stream, *map(str, range(1000)))
    inbox = reader(connection, stream, "first", prefetch=200)
    end = time.monotonic() + 30
    acked = 0
    while acked < 1000 and time.monotonic() < end:
        got = inbox.wait(acked + 1)
        inbox.channel.basic_ack(got[-1].tag, multiple=True)
        acked = len(got)
    assert [delivery.body for delivery in inbox.got] == [str(number) for number in range(1000)]


def test_a_stream_cannot_be_taken_from_one_by_one(channel, stream):
    with connection_refused(540, "NOT_IMPLEMENTED - basic.get not supported by stream queues"):
        channel.basic_get(stream)


def test_a_stream_cannot_be_purged(channel, stream):
    with connection_refused(540, "NOT_IMPLEMENTED - queue.purge not supported by stream queues"):
        channel.queue_purge(stream)


def test_a_reader_needs_a_prefetch(channel, stream):
    with channel_refused(406, "PRECONDITION_FAILED - consumer prefetch count is not set for "):
        Inbox(channel, stream)


def test_an_offset_that_makes_no_sense_is_refused(connection, channel, stream):
    # RabbitMQ 3.10 closes the connection with 541.
    with channel_refused(406, "PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue"):
        reader(connection, stream, "sometime")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", 1000),
        ("x-dead-letter-exchange", "x"),
        ("x-max-priority", 3),
        ("x-max-age", "5 ages"),
    ],
)
def test_arguments_that_a_stream_cannot_have_are_refused(channel, argument, value):
    arguments = {"x-queue-type": "stream", argument: value}
    with channel_refused(406, f"PRECONDITION_FAILED - invalid arg '{argument}' for queue"):
        channel.queue_declare(new_name(), durable=True, arguments=arguments)


def test_a_stream_is_durable_and_shared(channel):
    with channel_refused(406, "PRECONDITION_FAILED - invalid property "):
        channel.queue_declare(new_name(), exclusive=True, arguments={"x-queue-type": "stream"})
