"""What survives a broker that is stopped or killed, as AMQP clients see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from amqp_kit import (
    OTHER,
    Inbox,
    bound,
    channel_refused,
    confirming,
    connected,
    declare,
    declare_exchange,
    everything,
    must_get,
    put,
    ready,
)

from mainstem.testing.broker import Broker

pytestmark = pytest.mark.skipif(OTHER is not None, reason="only a broker of our own may be killed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(process=True, data=tmp_path / "data") as broker:
        yield broker


@pytest.fixture(params=["stop", "kill"])
def again(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Callable[[], str]]:
    """End the broker, in good order or not, and start another on its data; returns where that one listens.

    Not on the same ports: on a busy machine somebody else may have got them in between.
    """
    second = Broker(process=True, data=broker.data)

    def end_and_start() -> str:
        (broker.kill if request.param == "kill" else broker.stop)()
        return second.start().amqp

    yield end_and_start
    second.close()


def test_confirmed_messages_exchanges_and_bindings_are_there_again(broker, again):
    with connected(broker.amqp) as connection:
        channel = confirming(connection)
        exchange = declare_exchange(channel, "topic")
        queue = bound(channel, exchange, "a.#", x_max_length=50)
        channel.queue_bind(queue, "amq.direct", "k")
        for number in range(20):
            channel.basic_publish(
                exchange, "a.b", str(number).encode(), pika.BasicProperties(delivery_mode=2)
            )
    address = again()
    with connected(address) as connection:
        channel = confirming(connection)
        channel.queue_declare(queue, durable=True, arguments={"x-max-length": 50})
        assert everything(channel, queue) == [str(number) for number in range(20)]
        channel.basic_publish(exchange, "a.c", b"topic", mandatory=True)
        channel.basic_publish("amq.direct", "k", b"direct", mandatory=True)
        assert everything(channel, queue) == ["topic", "direct"]


def test_acked_messages_stay_away_and_held_ones_come_back_flagged(broker, again):
    with connected(broker.amqp) as connection:
        channel = confirming(connection)
        queue, other = declare(channel), declare(channel)
        put(channel, queue, *"abcd", delivery_mode=2)
        got = Inbox(channel, queue).wait(4)
        channel.basic_ack(got[0].tag)
        channel.basic_ack(got[2].tag)
        put(channel, other, "its confirm comes after the acks are on disk")
        address = again()
    with connected(address) as later:
        channel = confirming(later)
        found = [must_get(channel, queue) for _ in range(2)]
        assert [(each.body, each.again) for each in found] == [("b", True), ("d", True)]
        assert ready(channel, queue) == 0


def test_failed_deliveries_of_a_quorum_queue_are_counted_on(broker, again):
    with connected(broker.amqp) as connection:
        channel = confirming(connection)
        queue = declare(channel, x_queue_type="quorum", x_delivery_limit=2)
        put(channel, queue, "poison")
        for _ in range(2):
            channel.basic_reject(must_get(channel, queue, ack=False).tag, requeue=True)
        put(channel, queue, "confirmed")  # so is, with it, what happened before
    with connected(again()) as connection:
        channel = connection.channel()
        found = must_get(channel, queue, ack=False)
        assert (found.body, found.properties.headers["x-delivery-count"]) == ("poison", 2)
        channel.basic_reject(found.tag, requeue=True)
        assert everything(channel, queue) == ["confirmed"]


def test_a_committed_transaction_is_there_and_an_open_one_is_not(broker, again):
    with connected(broker.amqp) as connection:
        queue = declare(connection.channel())
        tx = connection.channel()
        tx.tx_select()
        put(tx, queue, "committed", delivery_mode=2)
        tx.tx_commit()
        put(tx, queue, "open", delivery_mode=2)
        tx.basic_qos(prefetch_count=1)
        address = again()
    with connected(address) as later:
        assert everything(later.channel(), queue) == ["committed"]


def test_what_was_not_durable_is_gone(broker, again):
    with connected(broker.amqp) as connection:
        channel = connection.channel()
        transient = declare(channel, durable=False)
        exclusive = declare(channel, exclusive=True, durable=True)
        exchange = declare_exchange(channel, durable=False)
        address = again()
    with connected(address) as later:
        for queue in (transient, exclusive):
            with channel_refused(404):
                later.channel().queue_declare(queue, passive=True)
        with channel_refused(404):
            later.channel().exchange_declare(exchange, passive=True)


def test_priorities_delays_and_lifetimes_go_on(broker, again):
    with connected(broker.amqp) as connection:
        channel = confirming(connection)
        levels = declare(channel, x_max_priority=5)
        for priority in (1, 5, 3):
            put(channel, levels, str(priority), priority=priority, delivery_mode=2)
        delayed = declare_exchange(channel, "x-delayed-message", arguments={"x-delayed-type": "direct"})
        late = bound(channel, delayed, "k")
        properties = pika.BasicProperties(headers={"x-delay": 1000}, delivery_mode=2)
        channel.basic_publish(delayed, "k", b"late", properties)
        grave = declare(channel)
        mortal = declare(
            channel, x_message_ttl=1000, x_dead_letter_exchange="", x_dead_letter_routing_key=grave
        )
        put(channel, mortal, "m", delivery_mode=2)
    address = again()
    with connected(address) as later:
        channel = confirming(later)
        assert everything(channel, levels) == ["5", "3", "1"]
        assert must_get(channel, late).body == "late"
        assert must_get(channel, grave).body == "m"
