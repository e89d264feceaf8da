"""What the AMQP tests share: connections, waiting, a consumer that keeps what it gets, expected refusals."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, ConnectionClosedByBroker

T = TypeVar("T")
PATIENCE_S = 30.0
# Another broker than ours to be tested, see conftest.py.
OTHER = os.environ.get("MAINSTEM_TEST_AMQP")
# The broker under test may outlive a run, so names differ between runs too.
_run = uuid.uuid4().hex[:6]
_names = itertools.count(1)


def new_name(prefix: str = "queue") -> str:
    return f"{prefix}-{_run}-{next(_names)}"


def until(look: Callable[[], T], what: str = "it", patience_s: float = PATIENCE_S) -> T:
    """Look again and again until there is something to see."""
    end = time.monotonic() + patience_s
    while not (seen := look()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience_s} s for {what}; last seen: {seen!r}")
        time.sleep(0.005)
    return seen


def parameters(address: str, **more: Any) -> pika.ConnectionParameters:
    host, _, port = address.rpartition(":")
    more.setdefault("blocked_connection_timeout", PATIENCE_S)
    return pika.ConnectionParameters(host, int(port), **more)


@contextmanager
def connected(address: str, **more: Any) -> Iterator[BlockingConnection]:
    """A connection of its own, closed at the end if it still stands."""
    connection = BlockingConnection(parameters(address, **more))
    try:
        yield connection
    finally:
        # The broker may have ended before the connection.
        with suppress(AMQPConnectionError):
            if connection.is_open:
                connection.close()


def confirming(connection: BlockingConnection) -> BlockingChannel:
    """A new channel on which each publish waits for its confirm."""
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def declare(channel: BlockingChannel, prefix: str = "queue", **more: Any) -> str:
    """A new durable queue; keywords that begin with x_ are its arguments: x_max_length=3."""
    arguments = {name.replace("_", "-"): more.pop(name) for name in list(more) if name.startswith("x_")}
    name = new_name(prefix)
    channel.queue_declare(name, **{"durable": True, "arguments": arguments, **more})
    return name


def declare_exchange(channel: BlockingChannel, kind: str = "direct", **more: Any) -> str:
    name = new_name(kind)
    channel.exchange_declare(name, kind, **{"durable": True, **more})
    return name


def bound(channel: BlockingChannel, exchange: str, key: str = "", **more: Any) -> str:
    """A new queue bound to the exchange."""
    queue = declare(channel, **more)
    channel.queue_bind(queue, exchange, key)
    return queue


def put(channel: BlockingChannel, queue: str, *bodies: str, **properties: Any) -> None:
    """Publish straight to a queue."""
    for body in bodies:
        channel.basic_publish("", queue, body.encode(), pika.BasicProperties(**properties))


def ready(channel: BlockingChannel, queue: str) -> int:
    """How many messages wait in the queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def consumers(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.consumer_count)


class Delivery(NamedTuple):
    method: Any
    properties: pika.BasicProperties
    data: bytes

    @property
    def body(self) -> str:
        return self.data.decode()

    @property
    def tag(self) -> int:
        return int(self.method.delivery_tag)

    @property
    def again(self) -> bool:
        return bool(self.method.redelivered)


def get(channel: BlockingChannel, queue: str, *, ack: bool = True) -> Delivery | None:
    """One message, or None if the queue is empty now."""
    method, properties, data = channel.basic_get(queue, auto_ack=ack)
    return None if method is None else Delivery(method, properties, data)


def must_get(channel: BlockingChannel, queue: str, *, ack: bool = True) -> Delivery:
    """One message, as soon as there is one."""
    return until(lambda: get(channel, queue, ack=ack), f"a message in {queue}")


def everything(channel: BlockingChannel, queue: str) -> list[str]:
    """Take all that is in the queue now."""
    bodies = []
    while (found := get(channel, queue)) is not None:
        bodies.append(found.body)
    return bodies


class Inbox:
    """A consumer that keeps what it gets, in order."""

    def __init__(self, channel: BlockingChannel, queue: str, **more: Any) -> None:
        self.channel = channel
        self.got: list[Delivery] = []
        self.tag = channel.basic_consume(queue, self._keep, **more)

    def _keep(self, _channel: object, method: Any, properties: pika.BasicProperties, data: bytes) -> None:
        self.got.append(Delivery(method, properties, data))

    def wait(self, count: int) -> list[Delivery]:
        """Everything so far, once there are at least so many."""

        def enough() -> bool:
            pump(self.channel.connection)
            return len(self.got) >= count

        until(enough, f"{count} deliveries")
        return list(self.got)

    def bodies(self, count: int) -> list[str]:
        return [delivery.body for delivery in self.wait(count)]

    def take(self, count: int) -> list[Delivery]:
        """The first so many, which are then forgotten."""
        taken = self.wait(count)[:count]
        del self.got[:count]
        return taken

    def settled(self) -> list[str]:
        """What came until a question asked now has been answered."""
        self.channel.basic_qos(prefetch_count=0)
        pump(self.channel.connection)
        return [delivery.body for delivery in self.got]


def pump(connection: BlockingConnection) -> None:
    """Let pika read and hand out what has come."""
    connection.process_data_events(time_limit=0.005)


@contextmanager
def channel_refused(code: int, text: str = "") -> Iterator[None]:
    """The channel is closed with this code and a text that starts like this."""
    with pytest.raises(ChannelClosedByBroker) as refused:
        yield
    _check(refused.value, code, text)


@contextmanager
def connection_refused(code: int, text: str = "") -> Iterator[None]:
    """The whole connection is closed with this code and a text that starts like this."""
    with pytest.raises(ConnectionClosedByBroker) as refused:
        yield
    _check(refused.value, code, text)


def _check(refused: ChannelClosedByBroker | ConnectionClosedByBroker, code: int, text: str) -> None:
    told = (refused.reply_code, refused.reply_text)
    assert refused.reply_code == code, f"{told}, not {code} {text}..."
    assert refused.reply_text.startswith(text), f"{told}, not {code} {text}..."
