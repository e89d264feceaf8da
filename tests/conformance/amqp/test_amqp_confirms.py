"""Confirms, returned messages and transactions."""

from __future__ import annotations

import pika
import pytest
from amqp_kit import (
    Inbox,
    channel_refused,
    connected,
    declare,
    declare_exchange,
    everything,
    get,
    must_get,
    new_name,
    pump,
    put,
    ready,
    until,
)
from amqp_raw import Raw
from pamqp import commands


def own_queue(raw, **more):
    return raw.ask(commands.Queue.Declare(queue="", exclusive=True, **more)).queue


def confirmed(raw, count):
    """Read confirms until publishes 1 to count are settled: {number: "Basic.Ack" or "Basic.Nack"}."""
    settled = {}
    floor = 1
    while len(settled) < count:
        answer = raw.receive()
        assert answer.name in ("Basic.Ack", "Basic.Nack")
        first = floor if answer.multiple else answer.delivery_tag
        for number in range(first, answer.delivery_tag + 1):
            settled.setdefault(number, answer.name)
        while floor in settled:
            floor += 1
    return settled


# --- confirms ------------------------------------------------------------------------------------


def test_every_publish_is_confirmed_once_counted_from_one(raw):
    queue = own_queue(raw)
    raw.ask(commands.Confirm.Select())
    for number in range(200):
        raw.publish("", queue, str(number).encode())
    assert confirmed(raw, 200) == dict.fromkeys(range(1, 201), "Basic.Ack")
    assert raw.ask(commands.Queue.Declare(queue=queue, passive=True)).message_count == 200


def test_counting_starts_when_confirms_are_switched_on_and_goes_on_when_again(raw):
    queue = own_queue(raw)
    raw.publish("", queue)
    raw.ask(commands.Confirm.Select())
    raw.publish("", queue)
    assert confirmed(raw, 1) == {1: "Basic.Ack"}
    raw.ask(commands.Confirm.Select())
    raw.publish("", queue)
    assert raw.receive().delivery_tag == 2


def test_each_channel_counts_for_itself(raw):
    raw.open_channel(2)
    for number in (1, 2):
        raw.ask(commands.Confirm.Select(), channel=number)
    raw.publish("", "nowhere")
    assert raw.receive(1).delivery_tag == 1
    raw.send(commands.Basic.Publish(routing_key="nowhere"), channel=2)
    raw.send_frame(2, b"\x00\x3c\x00\x00" + b"\x00" * 8 + b"\x00\x00", channel=2)
    assert raw.receive(2).delivery_tag == 1


def test_an_unroutable_message_is_confirmed(channel):
    channel.basic_publish("amq.direct", new_name(), b"m")


def test_persistent_and_transient_messages_and_empty_ones_are_confirmed(channel):
    queue = declare(channel)
    for mode in (1, 2):
        for body in ("", "x", "x" * 300_000):
            put(channel, queue, body, delivery_mode=mode)
    assert ready(channel, queue) == 6


def test_a_full_queue_that_rejects_answers_with_nack(raw):
    queue = own_queue(raw, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    raw.ask(commands.Confirm.Select())
    for _ in range(3):
        raw.publish("", queue)
    assert confirmed(raw, 3) == {1: "Basic.Ack", 2: "Basic.Nack", 3: "Basic.Nack"}


def test_an_unknown_exchange_closes_the_channel_in_place_of_a_confirm(channel):
    exchange = new_name()
    with channel_refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.basic_publish(exchange, "k", b"m")


def test_a_confirmed_message_is_there_for_others_at_once(other_connection, channel):
    queue = declare(channel)
    other = other_connection.channel()
    for number in range(20):
        put(channel, queue, str(number))
        assert get(other, queue).body == str(number)


# --- returns -------------------------------------------------------------------------------------


def test_a_mandatory_message_without_a_queue_comes_back_before_its_confirm(raw):
    raw.ask(commands.Confirm.Select())
    properties = commands.Basic.Properties(message_id="m1", headers={"a": "b"})
    raw.publish("amq.direct", "nowhere", b"body", mandatory=True, properties=properties)
    method, head, data = raw.receive_message()
    assert method.name == "Basic.Return"
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, data) == ("amq.direct", "nowhere", b"body")
    assert (head.properties.message_id, head.properties.headers) == ("m1", {"a": "b"})
    answer = raw.receive()
    assert (answer.name, answer.delivery_tag) == ("Basic.Ack", 1)


def test_returns_come_without_confirms_too_and_in_order(connection, channel):
    queue = declare(channel)
    publisher = connection.channel()
    returned = []
    publisher.add_on_return_callback(lambda _channel, _method, _properties, body: returned.append(body))
    for key, body in ((queue, b"a"), ("no-1", b"b"), (queue, b"c"), ("no-2", b"d")):
        publisher.basic_publish("", key, body, mandatory=True)
    until(lambda: pump(connection) or len(returned) == 2)
    assert returned == [b"b", b"d"]
    until(lambda: ready(channel, queue) == 2)
    assert everything(channel, queue) == ["a", "c"]


def test_a_message_that_is_not_mandatory_vanishes(raw):
    raw.ask(commands.Confirm.Select())
    raw.publish("amq.fanout", "nowhere", b"body")
    assert raw.receive().name == "Basic.Ack"


def test_a_full_queue_is_a_route_all_the_same(raw):
    queue = own_queue(raw, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    raw.ask(commands.Confirm.Select())
    raw.publish("", queue, b"body", mandatory=True)
    assert raw.receive().name == "Basic.Nack"


def test_pika_sees_an_unroutable_message(channel):
    with pytest.raises(pika.exceptions.UnroutableError) as unroutable:
        channel.basic_publish("amq.topic", "nobody.listens", b"m", mandatory=True)
    assert [message.body for message in unroutable.value.messages] == [b"m"]


# --- transactions --------------------------------------------------------------------------------


@pytest.fixture
def tx(connection):
    channel = connection.channel()
    channel.tx_select()
    return channel


def test_nothing_published_in_a_transaction_is_seen_before_commit(channel, tx):
    one, two = declare(channel), declare(channel)
    put(tx, one, "a", "b")
    put(tx, two, "c")
    tx.basic_qos(prefetch_count=0)
    assert (ready(channel, one), ready(channel, two)) == (0, 0)
    tx.tx_commit()
    assert (everything(channel, one), everything(channel, two)) == (["a", "b"], ["c"])


def test_rollback_forgets_what_was_published_and_a_new_transaction_begins(channel, tx):
    queue = declare(channel)
    put(tx, queue, "a")
    tx.tx_rollback()
    put(tx, queue, "b")
    tx.tx_commit()
    assert everything(channel, queue) == ["b"]


def test_closing_a_channel_forgets_its_transaction(channel, tx):
    queue = declare(channel)
    put(channel, queue, "held")
    held = must_get(tx, queue, ack=False)
    tx.basic_ack(held.tag)
    put(tx, queue, "never")
    tx.close()
    until(lambda: ready(channel, queue) == 1)
    found = must_get(channel, queue)
    assert (found.body, found.again) == ("held", True)


def test_acks_count_at_commit(connection, channel, tx):
    queue = declare(channel)
    put(channel, queue, *"ab")
    held = [must_get(tx, queue, ack=False) for _ in range(2)]
    tx.basic_ack(held[0].tag)
    tx.tx_commit()
    tx.close()
    until(lambda: ready(channel, queue) == 1)
    assert everything(channel, queue) == ["b"]


def test_after_rollback_an_acked_message_is_held_again_and_can_be_acked_again(channel, tx):
    queue = declare(channel)
    put(channel, queue, "a")
    held = must_get(tx, queue, ack=False)
    tx.basic_ack(held.tag)
    tx.tx_rollback()
    assert ready(channel, queue) == 0
    tx.basic_ack(held.tag)
    tx.tx_commit()
    tx.close()
    assert ready(channel, queue) == 0


@pytest.mark.parametrize(("requeue", "left"), [(True, 1), (False, 0)])
def test_rejects_count_at_commit(channel, tx, requeue, left):
    queue = declare(channel)
    put(channel, queue, "a")
    held = must_get(tx, queue, ack=False)
    tx.basic_reject(held.tag, requeue=requeue)
    tx.basic_qos(prefetch_count=0)
    assert ready(channel, queue) == 0
    tx.tx_commit()
    until(lambda: ready(channel, queue) == left)


def test_acks_and_publishes_of_a_transaction_take_effect_together(channel, tx):
    source, target = declare(channel), declare(channel)
    put(channel, source, *"abc")
    inbox = Inbox(tx, source)
    for delivery in inbox.take(3):
        put(tx, target, delivery.body.upper())
        tx.basic_ack(delivery.tag)
    assert ready(channel, target) == 0
    tx.tx_commit()
    tx.close()
    assert (ready(channel, source), everything(channel, target)) == (0, ["A", "B", "C"])


def test_a_mandatory_message_comes_back_at_commit(raw):
    raw.ask(commands.Tx.Select())
    raw.publish("amq.direct", "nowhere", b"m", mandatory=True)
    raw.send(commands.Tx.Commit())
    method, _, data = raw.receive_message()
    assert (method.name, data) == ("Basic.Return", b"m")
    assert raw.receive().name == "Tx.CommitOk"


def test_a_transaction_to_an_unknown_exchange_closes_the_channel(tx):
    tx.basic_publish(new_name(), "k", b"m")
    with channel_refused(404, "NOT_FOUND - no exchange "):
        tx.tx_commit()


def test_routes_are_those_of_commit_or_publish_but_the_message_is_not_lost(channel, tx):
    exchange = declare_exchange(channel, "fanout")
    queue = declare(channel)
    channel.queue_bind(queue, exchange, "")
    tx.basic_publish(exchange, "", b"m")
    tx.tx_commit()
    assert everything(channel, queue) == ["m"]


def test_a_broken_connection_rolls_back(address, channel):
    queue = declare(channel)
    with Raw(address) as raw:
        raw.open()
        raw.open_channel(1)
        raw.ask(commands.Tx.Select())
        raw.publish("", queue, b"never")
        raw.ask(commands.Basic.Qos(prefetch_count=1))
    with connected(address) as after:
        put(after.channel(), queue, "fence")
    until(lambda: ready(channel, queue) == 1)
    assert everything(channel, queue) == ["fence"]


@pytest.mark.parametrize("end", ["tx_commit", "tx_rollback"])
def test_commit_and_rollback_need_a_transaction(connection, end):
    with channel_refused(406, "PRECONDITION_FAILED - channel is not transactional"):
        getattr(connection.channel(), end)()


def test_a_channel_has_confirms_or_transactions(connection, channel, tx):
    with channel_refused(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode"):
        tx.confirm_delivery()
    with channel_refused(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode"):
        channel.tx_select()
