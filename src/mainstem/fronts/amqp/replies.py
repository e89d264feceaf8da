"""Direct reply-to: answers go straight to the channel that asked, with no queue behind.

A client consumes from `amq.rabbitmq.reply-to` and names that as reply-to of what it publishes. Messages get
an address in its place that leads back to its channel; what is published to that address is delivered there,
once, or dropped if the channel is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mainstem.broker.broker import Broker

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel

REPLY_TO = "amq.rabbitmq.reply-to"
PREFIX = REPLY_TO + "."


class Replies:
    """Who waits for answers, by address."""

    def __init__(self) -> None:
        self._waiting: dict[str, Channel] = {}

    def wait(self, address: str, channel: Channel) -> None:
        self._waiting[address] = channel

    def stop(self, address: str) -> None:
        self._waiting.pop(address, None)

    def find(self, address: str) -> Channel | None:
        return self._waiting.get(address)


_of_brokers: WeakKeyDictionary[Broker, Replies] = WeakKeyDictionary()


def replies_of(broker: Broker) -> Replies:
    """Of all its listeners: who asks and who answers may have come through different ones."""
    return _of_brokers.setdefault(broker, Replies())
