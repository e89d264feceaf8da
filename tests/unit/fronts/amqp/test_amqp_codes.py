"""Every error has a code of AMQP, and the words that RabbitMQ has for it."""

from __future__ import annotations

import pytest

from mainstem.fronts.amqp.codes import CODES, Resource, as_amqp, code_of
from mainstem.model import errors as e
from mainstem.wire.amqp.errors import AmqpError

QUEUE = Resource("queue", "q", "/")


def _all(cls: type[e.MainstemError]) -> set[type[e.MainstemError]]:
    return {cls}.union(*(_all(sub) for sub in cls.__subclasses__()))


def test_errors_of_queues_are_all_in_the_table() -> None:
    assert {cls for cls in _all(e.QueueError) if cls.__module__ == e.__name__} <= set(CODES)


def test_what_is_not_in_the_table_has_the_code_of_its_kind() -> None:
    assert code_of(e.InvalidConfig("x")) == 406
    assert code_of(e.DiskFull("x")) == 506
    assert code_of(e.UnknownMember("x")) == 541
    assert code_of(ValueError()) == 541


@pytest.mark.parametrize(
    ("error", "text", "closes"),
    [
        (e.UnknownQueue("q"), "404 NOT_FOUND - no queue 'q' in vhost '/'", False),
        (e.UnknownExchange("x"), "404 NOT_FOUND - no exchange 'x' in vhost '/'", False),
        (e.QueueInUse("why"), "406 PRECONDITION_FAILED - queue 'q' in vhost '/' in use", False),
        (e.QueueNotEmpty("why"), "406 PRECONDITION_FAILED - queue 'q' in vhost '/' not empty", False),
        (
            e.Inequivalent("queue", "durable", False, True),
            "406 PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/':"
            " received 'false' but current is 'true'",
            False,
        ),
        (
            e.Inequivalent("queue", "x-message-ttl", None, 1000),
            "406 PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/':"
            " received none but current is the value '1000' of type 'signedint'",
            False,
        ),
        (
            e.NotAuthorized("User:joe", "read", "queue", "q"),
            "403 ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'joe'",
            False,
        ),
        (e.NotSupported("no such thing"), "540 NOT_IMPLEMENTED - no such thing", True),
    ],
)
def test_errors_are_told_in_the_words_of_rabbitmq(error: e.MainstemError, text: str, closes: bool) -> None:
    told = as_amqp(error, QUEUE)
    assert str(told) == text
    assert told.closes_connection is closes


def test_a_locked_queue_says_who_may_use_it() -> None:
    told = as_amqp(e.QueueLocked("q"), QUEUE)
    assert told.code == 405
    assert told.text.startswith("cannot obtain exclusive access to locked queue 'q' in vhost '/'.")


def test_an_error_of_the_protocol_stays_as_it_is() -> None:
    error = AmqpError(504, "expected 'channel.open'")
    assert as_amqp(error, QUEUE) is error
