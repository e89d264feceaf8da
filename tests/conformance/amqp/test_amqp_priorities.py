"""Queues with priorities."""

from __future__ import annotations

import pytest
from amqp_kit import Inbox, declare, everything, get, must_get, put, ready, until


def put_all(channel, queue, *pairs):
    for body, priority in pairs:
        put(channel, queue, body, priority=priority)


def test_higher_priorities_come_first_and_equals_in_order(channel):
    queue = declare(channel, x_max_priority=5)
    put_all(channel, queue, ("a1", 1), ("b5", 5), ("c1", 1), ("d3", 3), ("e5", 5), ("f0", 0))
    assert everything(channel, queue) == ["b5", "e5", "d3", "a1", "c1", "f0"]


def test_no_priority_is_the_lowest_and_one_above_the_highest_is_the_highest(channel):
    queue = declare(channel, x_max_priority=2)
    put_all(channel, queue, ("none", None), ("two", 2), ("hundred", 100), ("one", 1), ("zero", 0))
    assert everything(channel, queue) == ["two", "hundred", "one", "none", "zero"]


def test_the_priority_comes_back_as_it_was_sent(channel):
    queue = declare(channel, x_max_priority=2)
    put_all(channel, queue, ("m", 100))
    assert must_get(channel, queue).properties.priority == 100


def test_without_max_priority_the_order_of_publishing_counts(channel):
    queue = declare(channel)
    put_all(channel, queue, ("a", 1), ("b", 9))
    assert everything(channel, queue) == ["a", "b"]


def test_a_late_high_priority_overtakes_what_is_not_yet_delivered(channel):
    queue = declare(channel, x_max_priority=9)
    put_all(channel, queue, ("a", 1), ("b", 1), ("c", 1))
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    (first,) = inbox.take(1)
    put_all(channel, queue, ("urgent", 9))
    channel.basic_ack(first.tag)
    assert first.body == "a"
    found = []
    for _ in range(3):
        (delivery,) = inbox.take(1)
        found.append(delivery.body)
        channel.basic_ack(delivery.tag)
    assert found == ["urgent", "b", "c"]


def test_requeued_messages_keep_their_place_within_their_priority(channel):
    queue = declare(channel, x_max_priority=5)
    put_all(channel, queue, ("a5", 5), ("b5", 5), ("c1", 1))
    held = [must_get(channel, queue, ack=False) for _ in range(3)]
    channel.basic_nack(held[0].tag, requeue=True)
    channel.basic_nack(held[2].tag, requeue=True)
    put_all(channel, queue, ("d5", 5), ("e1", 1))
    until(lambda: ready(channel, queue) == 4)
    assert everything(channel, queue) == ["a5", "d5", "c1", "e1"]


def test_counts_and_purge_cover_all_priorities(channel):
    queue = declare(channel, x_max_priority=3)
    put_all(channel, queue, ("a", 0), ("b", 1), ("c", 2), ("d", 3))
    assert ready(channel, queue) == 4
    must_get(channel, queue, ack=False)
    assert channel.queue_purge(queue).method.message_count == 3
    assert ready(channel, queue) == 0


def test_max_length_counts_all_priorities(channel):
    queue = declare(channel, x_max_priority=3, x_max_length=2)
    put_all(channel, queue, ("low", 0), ("high", 3), ("low too", 0))
    assert ready(channel, queue) == 2


def test_messages_of_every_priority_die_in_time(channel):
    queue = declare(channel, x_max_priority=3, x_message_ttl=20)
    put_all(channel, queue, ("a", 0), ("b", 3))
    until(lambda: ready(channel, queue) == 0)
    assert get(channel, queue) is None


def test_a_dead_letter_keeps_its_priority(channel):
    grave = declare(channel, x_max_priority=5)
    queue = declare(channel, x_max_priority=5, x_dead_letter_exchange="", x_dead_letter_routing_key=grave)
    put_all(channel, queue, ("low", 1), ("high", 5))
    low_last = [must_get(channel, queue, ack=False) for _ in range(2)]
    for delivery in reversed(low_last):
        channel.basic_reject(delivery.tag, requeue=False)
    until(lambda: ready(channel, grave) == 2)
    assert everything(channel, grave) == ["high", "low"]


@pytest.mark.parametrize("top", [1, 10, 255])
def test_any_number_of_levels_works(channel, top):
    queue = declare(channel, x_max_priority=top)
    put_all(channel, queue, ("low", 0), ("high", top))
    assert everything(channel, queue) == ["high", "low"]
