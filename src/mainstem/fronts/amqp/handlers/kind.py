"""What a handler is, and what several of them need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pamqp import base

from mainstem.broker.partition import Partition
from mainstem.fronts.amqp.channel import Channel
from mainstem.fronts.amqp.codes import not_found, refused
from mainstem.fronts.amqp.session import Session

Reply = base.Frame | None
Handler = Callable[[Channel, Any], Reply | Awaitable[Reply]]

RESERVED = "amq."


def clean(name: str) -> str:
    """Line ends in names are dropped, as RabbitMQ does: they would forge lines of a log."""
    return name.replace("\n", "").replace("\r", "")


def check_name(kind: str, name: str) -> None:
    if name.startswith(RESERVED):
        raise refused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_not_default(name: str) -> None:
    if not name:
        raise refused("operation not permitted on the default exchange")


def expand(channel: Channel, name: str) -> str:
    """No name stands for the queue that was declared last."""
    if name:
        return clean(name)
    if not channel.last_queue:
        raise not_found("no previously declared queue")
    return channel.last_queue


def stream_of(session: Session, name: str) -> list[Partition] | None:
    """What is read and not taken from: a queue of that type or, where no queue has the name, a topic."""
    queue = session.namespace.queues.get(name)
    if queue is not None:
        return [queue.lanes[0].partition] if queue.spec.options.kind == "stream" else None
    topic = session.finds_topic(name)
    return None if topic is None else topic.partitions


def expand_key(channel: Channel, queue: str, key: str) -> str:
    return expand(channel, "") if not queue and not key else key
