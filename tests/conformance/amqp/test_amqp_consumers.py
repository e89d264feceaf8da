"""Who gets the next message: prefetch, priorities, single active and exclusive consumers, cancellations."""

from __future__ import annotations

import pytest
from amqp_kit import (
    Inbox,
    channel_refused,
    connected,
    connection_refused,
    consumers,
    declare,
    must_get,
    pump,
    put,
    ready,
    until,
)
from amqp_raw import Raw
from pamqp import commands

# --- cancelled by the broker ---------------------------------------------------------------------


def test_a_consumer_is_told_when_its_queue_is_deleted(connection, channel):
    queue = declare(channel)
    consumer = connection.channel()
    cancelled = []
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    inbox = Inbox(consumer, queue)
    channel.queue_delete(queue)
    until(lambda: pump(connection) or cancelled)
    assert cancelled == [inbox.tag]
    assert consumer.is_open


def test_who_deletes_its_own_queue_is_answered_before_its_consumers_are_cancelled(raw, channel):
    queue = declare(channel)
    for tag in ("one", "two"):
        raw.ask(commands.Basic.Consume(queue=queue, consumer_tag=tag))
    raw.send(commands.Queue.Delete(queue=queue))
    came = [raw.receive() for _ in range(3)]
    assert [one.name for one in came] == ["Queue.DeleteOk", "Basic.Cancel", "Basic.Cancel"]
    assert {one.consumer_tag for one in came[1:]} == {"one", "two"}
    assert raw.ask(commands.Basic.Qos(prefetch_count=1)).name == "Basic.QosOk"


def test_a_client_that_knows_no_cancellations_is_not_told(address, channel):
    queue = declare(channel)
    with Raw(address) as raw:
        raw.open(capabilities={"publisher_confirms": True})
        raw.open_channel(1)
        raw.ask(commands.Basic.Consume(queue=queue))
        channel.queue_delete(queue)
        assert raw.ask(commands.Basic.Qos(prefetch_count=1)).name == "Basic.QosOk"


def test_the_tag_of_a_cancelled_consumer_is_free_again(connection, channel):
    one, two = declare(channel), declare(channel)
    consumer = connection.channel()
    inbox = Inbox(consumer, one, consumer_tag="again", auto_ack=True)
    consumer.basic_cancel(inbox.tag)
    put(channel, two, "m")
    assert Inbox(consumer, two, consumer_tag="again", auto_ack=True).bodies(1) == ["m"]


def test_acks_for_a_deleted_queue_are_taken_quietly(channel):
    queue = declare(channel)
    put(channel, queue, "m")
    held = must_get(channel, queue, ack=False)
    channel.queue_delete(queue)
    channel.basic_ack(held.tag)
    channel.basic_qos(prefetch_count=0)
    assert channel.is_open


# --- prefetch ------------------------------------------------------------------------------------


def test_each_consumer_of_a_channel_has_the_prefetch_of_its_start(channel):
    queue = declare(channel)
    put(channel, queue, *map(str, range(10)))
    channel.basic_qos(prefetch_count=2)
    one = Inbox(channel, queue)
    one.wait(2)
    channel.basic_qos(prefetch_count=3)
    two = Inbox(channel, queue)
    two.wait(3)
    until(lambda: ready(channel, queue) == 5)
    assert (len(one.got), len(two.got)) == (2, 3)


def test_a_global_prefetch_holds_for_the_whole_channel(channel):
    queue = declare(channel)
    put(channel, queue, *map(str, range(10)))
    channel.basic_qos(prefetch_count=3, global_qos=True)
    inboxes = [Inbox(channel, queue) for _ in range(2)]
    until(lambda: pump(channel.connection) or sum(len(inbox.got) for inbox in inboxes) == 3)
    until(lambda: ready(channel, queue) == 7)
    first = (inboxes[0].got or inboxes[1].got)[0]
    channel.basic_ack(first.tag)
    until(lambda: pump(channel.connection) or sum(len(inbox.got) for inbox in inboxes) == 4)
    assert ready(channel, queue) == 6


def test_raising_a_global_prefetch_lets_waiting_messages_through(channel):
    queue = declare(channel)
    put(channel, queue, *"abcd")
    channel.basic_qos(prefetch_count=1, global_qos=True)
    inbox = Inbox(channel, queue)
    inbox.wait(1)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    assert inbox.bodies(3) == ["a", "b", "c"]
    channel.basic_qos(prefetch_count=0, global_qos=True)
    assert inbox.bodies(4) == ["a", "b", "c", "d"]


def test_no_prefetch_means_no_limit(connection, channel):
    queue = declare(channel)
    put(connection.channel(), queue, *map(str, range(1000)))
    assert len(Inbox(channel, queue).wait(1000)) == 1000


def test_acks_by_several_open_the_window_by_several(channel):
    queue = declare(channel)
    put(channel, queue, *map(str, range(9)))
    channel.basic_qos(prefetch_count=3)
    inbox = Inbox(channel, queue)
    for count in (3, 6, 9):
        channel.basic_ack(inbox.wait(count)[-1].tag, multiple=True)
    assert inbox.bodies(9) == [str(number) for number in range(9)]


def test_nacks_and_rejects_open_the_window_too(channel):
    queue = declare(channel)
    put(channel, queue, *"abc")
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    channel.basic_reject(inbox.wait(1)[-1].tag, requeue=False)
    channel.basic_nack(inbox.wait(2)[-1].tag, requeue=False)
    assert inbox.bodies(3) == ["a", "b", "c"]


def test_a_busy_consumer_does_not_hold_back_the_others(connection, other_connection, channel):
    queue = declare(channel)
    slow, quick = connection.channel(), other_connection.channel()
    for each in (slow, quick):
        each.basic_qos(prefetch_count=1)
    stuck = Inbox(slow, queue)
    put(channel, queue, *map(str, range(10)))
    stuck.wait(1)
    working = Inbox(quick, queue)
    for count in range(1, 10):
        quick.basic_ack(working.wait(count)[-1].tag)
    assert len(stuck.got) == 1


def test_a_prefetch_by_size_is_refused(channel):
    with connection_refused(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1000)"):
        channel.basic_qos(prefetch_size=1000)


# --- priorities ----------------------------------------------------------------------------------


def test_the_consumer_of_higher_priority_gets_all_until_its_window_is_full(
    connection, other_connection, channel
):
    queue = declare(channel)
    low, high = connection.channel(), other_connection.channel()
    lower = Inbox(low, queue)
    high.basic_qos(prefetch_count=3)
    higher = Inbox(high, queue, arguments={"x-priority": 5})
    put(channel, queue, *map(str, range(5)))
    assert [each.body for each in higher.wait(3)] == ["0", "1", "2"]
    assert [each.body for each in lower.wait(2)] == ["3", "4"]


def test_priorities_may_be_negative(connection, other_connection, channel):
    queue = declare(channel)
    lower = Inbox(connection.channel(), queue, auto_ack=True, arguments={"x-priority": -1})
    usual = Inbox(other_connection.channel(), queue, auto_ack=True)
    put(channel, queue, *"abc")
    assert usual.bodies(3) == ["a", "b", "c"]
    assert lower.settled() == []


def test_a_priority_that_is_no_number_is_refused(channel):
    queue = declare(channel)
    with channel_refused(406, "PRECONDITION_FAILED - "):
        Inbox(channel, queue, arguments={"x-priority": "high"})


# --- single active -------------------------------------------------------------------------------


def test_of_many_consumers_one_is_active_and_the_next_follows_when_it_goes(
    connection, other_connection, channel
):
    queue = declare(channel, x_single_active_consumer=True)
    first, second = Inbox(connection.channel(), queue), Inbox(other_connection.channel(), queue)
    assert consumers(channel, queue) == 2
    put(channel, queue, *"abc")
    assert first.bodies(3) == ["a", "b", "c"]
    first.channel.basic_ack(first.got[0].tag)
    assert second.settled() == []
    first.channel.close()
    found = [(each.body, each.again) for each in second.wait(2)]
    assert found == [("b", True), ("c", True)]
    put(channel, queue, "d")
    assert second.bodies(3) == ["b", "c", "d"]


def test_a_full_window_of_the_active_one_wakes_no_other(connection, other_connection, channel):
    queue = declare(channel, x_single_active_consumer=True)
    active = connection.channel()
    active.basic_qos(prefetch_count=1)
    first, second = Inbox(active, queue), Inbox(other_connection.channel(), queue)
    put(channel, queue, *"abc")
    first.wait(1)
    assert ready(channel, queue) == 2
    assert second.settled() == []


def test_single_active_and_exclusive_exclude_each_other(channel):
    queue = declare(channel, x_single_active_consumer=True)
    with channel_refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        Inbox(channel, queue, exclusive=True)


# --- exclusive -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(True, False), (True, True), (False, True)])
def test_an_exclusive_consumer_is_alone(connection, other_connection, channel, first, second):
    queue = declare(channel)
    Inbox(connection.channel(), queue, exclusive=first)
    with channel_refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        Inbox(other_connection.channel(), queue, exclusive=second)


def test_after_an_exclusive_consumer_another_may_come(address, connection, channel):
    queue = declare(channel)
    with connected(address) as other:
        Inbox(other.channel(), queue, exclusive=True)
        assert consumers(channel, queue) == 1
    until(lambda: consumers(channel, queue) == 0)
    put(channel, queue, "m")
    assert Inbox(channel, queue, exclusive=True).bodies(1) == ["m"]


# --- together ------------------------------------------------------------------------------------


def test_two_consumers_of_one_channel_get_deliveries_under_their_own_tags(channel):
    queues = [declare(channel) for _ in range(2)]
    inboxes = [Inbox(channel, queue, auto_ack=True) for queue in queues]
    for queue in queues:
        put(channel, queue, queue)
    for queue, inbox in zip(queues, inboxes, strict=True):
        (delivery,) = inbox.wait(1)
        assert (delivery.body, delivery.method.consumer_tag) == (queue, inbox.tag)


def test_what_a_lost_consumer_held_goes_to_the_next(address, channel):
    queue = declare(channel)
    put(channel, queue, *"abc")
    with connected(address) as lost:
        Inbox(lost.channel(), queue).wait(3)
        waiting = Inbox(channel, queue)
    assert [(each.body, each.again) for each in waiting.wait(3)] == [(body, True) for body in "abc"]


def test_flow_can_be_asked_to_go_on(raw):
    answer = raw.ask(commands.Channel.Flow(active=True))
    assert (answer.name, answer.active) == ("Channel.FlowOk", True)
