"""How much a queue holds and for how long."""

from __future__ import annotations

import pika
import pytest
from amqp_kit import (
    Inbox,
    bound,
    channel_refused,
    declare,
    declare_exchange,
    everything,
    get,
    must_get,
    put,
    ready,
    until,
)


def wait_a_lifetime(channel, ttl_ms):
    """Returns when a message published now with this time to live has died."""
    queue = declare(channel, x_message_ttl=ttl_ms)
    put(channel, queue, "clock")
    until(lambda: ready(channel, queue) == 0)


# --- length --------------------------------------------------------------------------------------


def test_a_full_queue_drops_its_oldest(channel):
    queue = declare(channel, x_max_length=3)
    put(channel, queue, *"abcde")
    assert everything(channel, queue) == ["c", "d", "e"]


def test_messages_that_are_held_do_not_count(channel):
    queue = declare(channel, x_max_length=2)
    put(channel, queue, *"ab")
    held = [must_get(channel, queue, ack=False) for _ in range(2)]
    put(channel, queue, *"cd")
    assert ready(channel, queue) == 2
    channel.basic_nack(held[1].tag, multiple=True, requeue=True)
    until(lambda: ready(channel, queue) == 2)
    assert everything(channel, queue) == ["c", "d"]


def test_max_length_in_bytes_counts_bodies(channel):
    queue = declare(channel, x_max_length_bytes=10)
    put(channel, queue, "aaaa", "bbbb", "cc", headers={"long": "h" * 100})
    assert ready(channel, queue) == 3
    put(channel, queue, "d")
    assert everything(channel, queue) == ["bbbb", "cc", "d"]


def test_a_message_larger_than_the_queue_drops_everything(channel):
    queue = declare(channel, x_max_length_bytes=10)
    put(channel, queue, "a", "x" * 11)
    assert everything(channel, queue) == []


def test_both_limits_hold_together(channel):
    queue = declare(channel, x_max_length=3, x_max_length_bytes=10)
    put(channel, queue, *"abcd")
    assert ready(channel, queue) == 3
    put(channel, queue, "e" * 9)
    assert everything(channel, queue) == ["d", "e" * 9]


def test_a_queue_of_no_length_passes_messages_to_those_who_wait(channel):
    queue = declare(channel, x_max_length=0)
    put(channel, queue, "lost")
    assert ready(channel, queue) == 0
    inbox = Inbox(channel, queue, auto_ack=True)
    put(channel, queue, "seen")
    assert inbox.bodies(1) == ["seen"]


def test_reject_publish_refuses_the_newest(channel):
    queue = declare(channel, x_max_length=2, x_overflow="reject-publish")
    put(channel, queue, *"ab")
    with pytest.raises(pika.exceptions.NackError):
        put(channel, queue, "c")
    assert get(channel, queue).body == "a"
    put(channel, queue, "d")
    assert everything(channel, queue) == ["b", "d"]


def test_reject_publish_without_confirms_drops_quietly(connection, channel):
    queue = declare(channel, x_max_length=1, x_overflow="reject-publish")
    put(connection.channel(), queue, *"abc")
    until(lambda: ready(channel, queue) == 1)
    assert everything(channel, queue) == ["a"]


def test_reject_publish_refuses_what_would_be_too_many_bytes(channel):
    queue = declare(channel, x_max_length_bytes=4, x_overflow="reject-publish")
    put(channel, queue, "aa", "bb")
    assert get(channel, queue).body == "aa"
    with pytest.raises(pika.exceptions.NackError):
        put(channel, queue, "ccc")
    put(channel, queue, "dd")
    assert everything(channel, queue) == ["bb", "dd"]


def test_a_message_refused_by_one_queue_still_reaches_the_others(channel):
    exchange = declare_exchange(channel, "fanout")
    full = bound(channel, exchange, x_max_length=1, x_overflow="reject-publish")
    wide = bound(channel, exchange)
    channel.basic_publish(exchange, "", b"a")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish(exchange, "", b"b")
    assert (everything(channel, full), everything(channel, wide)) == (["a"], ["a", "b"])


def test_drop_head_is_the_default_overflow(channel):
    queue = declare(channel, x_max_length=1, x_overflow="drop-head")
    put(channel, queue, *"ab")
    assert everything(channel, queue) == ["b"]


# --- time ----------------------------------------------------------------------------------------


def test_messages_die_when_their_queues_time_is_over(channel):
    queue = declare(channel, x_message_ttl=20)
    put(channel, queue, *"abc")
    until(lambda: ready(channel, queue) == 0)
    assert everything(channel, queue) == []


def test_messages_die_when_their_own_time_is_over(channel):
    queue = declare(channel)
    put(channel, queue, "short", expiration="10")
    until(lambda: ready(channel, queue) == 0)
    put(channel, queue, "long", expiration="60000")
    wait_a_lifetime(channel, 10)
    found = get(channel, queue)
    assert (found.body, found.properties.expiration) == ("long", "60000")


@pytest.mark.parametrize(("queues", "own"), [(10, "60000"), (60_000, "10")])
def test_the_shorter_of_both_times_counts(channel, queues, own):
    queue = declare(channel, x_message_ttl=queues)
    put(channel, queue, "m", expiration=own)
    until(lambda: ready(channel, queue) == 0)


def test_a_dead_message_behind_a_living_one_is_never_delivered(channel):
    queue = declare(channel)
    put(channel, queue, "a")
    put(channel, queue, "dead", expiration="5")
    put(channel, queue, "b")
    wait_a_lifetime(channel, 20)
    assert everything(channel, queue) == ["a", "b"]


@pytest.mark.parametrize("how", ["queue", "message"])
def test_a_message_of_no_time_reaches_only_those_who_wait(channel, how):
    queue = declare(channel, **({"x_message_ttl": 0} if how == "queue" else {}))
    properties = {"expiration": "0"} if how == "message" else {}
    put(channel, queue, "lost", **properties)
    until(lambda: ready(channel, queue) == 0)
    inbox = Inbox(channel, queue, auto_ack=True)
    put(channel, queue, "seen", **properties)
    assert inbox.bodies(1) == ["seen"]


def test_a_held_message_does_not_die_until_it_is_given_back(channel):
    grave = declare(channel)
    queue = declare(channel, x_message_ttl=20, x_dead_letter_exchange="", x_dead_letter_routing_key=grave)
    inbox = Inbox(channel, queue)
    put(channel, queue, "m")
    (held,) = inbox.wait(1)
    channel.basic_cancel(inbox.tag)
    wait_a_lifetime(channel, 30)
    assert ready(channel, grave) == 0
    channel.basic_nack(held.tag, requeue=True)
    assert must_get(channel, grave).body == "m"
    assert ready(channel, queue) == 0


@pytest.mark.parametrize("expiration", ["soon", "-1", "1.5", " 5", ""])
def test_an_expiration_that_is_no_number_is_refused(channel, expiration):
    queue = declare(channel)
    with channel_refused(406, f"PRECONDITION_FAILED - invalid expiration '{expiration}'"):
        put(channel, queue, "m", expiration=expiration)
