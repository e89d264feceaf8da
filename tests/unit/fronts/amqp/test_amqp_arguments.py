"""Arguments are checked with RabbitMQ's words and become the options of a queue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mainstem.broker.queues import QueueOptions
from mainstem.fronts.amqp.arguments import (
    alternate_exchange,
    check_kind,
    consumer_priority,
    queue_options,
    stream_offset,
)
from mainstem.fronts.amqp.codes import Resource
from mainstem.wire.amqp.errors import AmqpError

QUEUE = Resource("queue", "q", "/")


def test_no_arguments_mean_a_classic_queue_without_limits() -> None:
    assert queue_options({}, QUEUE) == QueueOptions()


def test_all_arguments_are_understood() -> None:
    options = queue_options(
        {
            "x-message-ttl": 1000,
            "x-expires": 2000,
            "x-dead-letter-exchange": "dlx",
            "x-dead-letter-routing-key": "dead",
            "x-max-length": 10,
            "x-max-length-bytes": 1 << 20,
            "x-overflow": "reject-publish",
            "x-max-priority": 10,
            "x-single-active-consumer": True,
            "x-queue-mode": "lazy",
            "x-anything-else": "kept",
        },
        QUEUE,
    )
    assert options == QueueOptions(
        1000, 2000, "dlx", "dead", 10, 1 << 20, "reject-publish", 10, True, None, "classic"
    )


def test_a_quorum_queue_has_a_delivery_limit_unless_it_is_taken_away() -> None:
    assert queue_options({"x-queue-type": "quorum"}, QUEUE).delivery_limit == 20
    assert queue_options({"x-queue-type": "quorum", "x-delivery-limit": 3}, QUEUE).delivery_limit == 3
    assert queue_options({"x-queue-type": "quorum", "x-delivery-limit": -1}, QUEUE).delivery_limit is None


def test_the_age_of_a_stream_is_told_in_units() -> None:
    options = queue_options({"x-queue-type": "stream", "x-max-age": "7D"}, QUEUE)
    assert options.message_ttl_ms == 7 * 24 * 3600 * 1000
    assert options.kind == "stream"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"x-message-ttl": -1},
            "invalid arg 'x-message-ttl' for queue 'q' in vhost '/': {value_negative,-1}",
        ),
        ({"x-message-ttl": "1"}, '"expected integer, got longstr"'),
        ({"x-message-ttl": 1 << 50}, "{value_too_large,1125899906842624}"),
        ({"x-expires": 0}, "invalid arg 'x-expires' for queue 'q' in vhost '/': {value_zero,0}"),
        ({"x-expires": True}, '"expected integer, got bool"'),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-max-length": -5}, "{value_negative,-5}"),
        ({"x-dead-letter-exchange": 1}, "{unacceptable_type,signedint}"),
        ({"x-dead-letter-routing-key": "k"}, "routing_key_but_no_dlx_defined"),
        ({"x-overflow": "drop-tail"}, "invalid_overflow"),
        ({"x-single-active-consumer": 1}, "{unacceptable_type,signedint}"),
        ({"x-queue-type": "clasic"}, "\"unsupported queue type 'clasic'\""),
        ({"x-max-age": "7 days", "x-queue-type": "stream"}, "invalid_max_age"),
        (
            {"x-queue-type": "quorum", "x-max-priority": 5},
            "invalid arg 'x-max-priority' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue",
        ),
        (
            {"x-queue-type": "stream", "x-message-ttl": 5},
            "invalid arg 'x-message-ttl' for queue 'q' in vhost '/' of queue type rabbit_stream_queue",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_the_words_of_rabbitmq(
    arguments: dict[str, object], text: str
) -> None:
    with pytest.raises(AmqpError) as caught:
        queue_options(arguments, QUEUE)
    assert caught.value.code == 406
    assert not caught.value.closes_connection
    assert text in caught.value.text


def test_quorum_queues_and_streams_are_there_to_stay() -> None:
    check_kind("quorum", True, False, False, QUEUE)
    check_kind("classic", False, True, True, QUEUE)
    for durable, exclusive, auto_delete, name in (
        (False, False, False, "non-durable"),
        (True, True, False, "exclusive-owner"),
        (True, False, True, "auto-delete"),
    ):
        with pytest.raises(AmqpError, match=f"invalid property '{name}' for queue 'q' in vhost '/'"):
            check_kind("stream", durable, exclusive, auto_delete, QUEUE)


def test_an_alternate_exchange_has_a_name() -> None:
    exchange = Resource("exchange", "x", "/")
    assert alternate_exchange({}, exchange) is None
    assert alternate_exchange({"alternate-exchange": "other"}, exchange) == "other"
    with pytest.raises(AmqpError, match="invalid type 'signedint' for arg 'alternate-exchange'"):
        alternate_exchange({"alternate-exchange": 1}, exchange)


def test_a_consumer_priority_is_a_number() -> None:
    assert consumer_priority({"x-priority": -5}, QUEUE) == -5
    with pytest.raises(AmqpError, match="x-priority"):
        consumer_priority({"x-priority": "high"}, QUEUE)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("first", ("first", 0)),
        ("last", ("last", 0)),
        (17, ("offset", 17)),
        (datetime(2020, 1, 1, tzinfo=UTC), ("time", 1_577_836_800_000)),
        ("1h", ("time", 10_000_000 - 3_600_000)),
    ],
)
def test_a_reader_of_a_stream_says_where_it_begins(value: object, wanted: tuple[str, int]) -> None:
    assert stream_offset({"x-stream-offset": value}, QUEUE, 10_000_000) == wanted


def test_a_reader_of_a_stream_begins_with_what_comes_next() -> None:
    assert stream_offset({}, QUEUE, 0) == ("next", 0)
    for wrong in (-1, "tomorrow", True, 1.5):
        with pytest.raises(AmqpError, match="x-stream-offset"):
            stream_offset({"x-stream-offset": wrong}, QUEUE, 0)
