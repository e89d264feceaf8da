"""A consumer of a channel: takes messages from its queue and writes them to its connection."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pamqp import commands

from mainstem.broker.queues import Found, Queue
from mainstem.fronts.amqp.unacked import Held
from mainstem.wire.amqp.deliver import Deliveries

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel


class Consumer:
    """The broker calls it as a `Taker`."""

    __slots__ = (
        "_counts_attempts",
        "_deliveries",
        "_is_short",
        "channel",
        "in_flight",
        "is_open",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "tag",
    )

    def __init__(self, channel: Channel, tag: str, queue: Queue, no_ack: bool, priority: int) -> None:
        self.channel = channel
        self.tag = tag
        self.queue = queue
        self.no_ack = no_ack
        self.priority = priority
        self.prefetch = channel.prefetch  # as it was at that time; 0: no limit
        self.in_flight = 0
        self._is_short = False  # of room: it could have taken more
        self.is_open = False  # nothing comes before consume-ok or after cancel-ok
        self._counts_attempts = queue.spec.options.kind == "quorum"
        session = channel.connection.session
        self._deliveries = Deliveries(channel.number, tag, session.frame_max)

    def credit(self) -> int:
        """How many it may take: none while its client does not read what it was sent."""
        channel = self.channel
        if not self.is_open or channel.connection.is_closed or channel.connection.outbox.is_full:
            return 0
        if self.no_ack:
            return -1
        left = -1
        if self.prefetch:
            left = max(self.prefetch - self.in_flight, 0)
        if channel.shared_prefetch:
            room = max(channel.shared_prefetch - channel.in_flight, 0)
            left = room if left < 0 else min(left, room)
        if left == 0:
            self._is_short = True
        return left

    def take(self, queue: Queue, found: list[Found]) -> None:
        channel = self.channel
        connection = channel.connection
        if channel.shared_prefetch and not self.no_ack:
            found = self._within(channel.shared_prefetch - channel.in_flight, queue, found)
        out, encode = connection.outbox.out, self._deliveries.encode
        for one in found:
            lane, first, count, at = one.lane, one.first, one.count, one.at
            tag = channel.next_tag
            if one.again and self._counts_attempts:
                channel.next_tag = self._encode_counted(queue, one, tag)
            else:
                channel.next_tag = encode(out, tag, one.again, one.batch, at, at + count)
            if self.no_ack:
                queue.ack(lane, first, first + count)
            else:
                channel.unacked.hold(Held(tag, tag + count, queue, lane, first, self))
                self.in_flight += count
                channel.in_flight += count
        connection.outbox.flush_soon()

    def _encode_counted(self, queue: Queue, found: Found, tag: int) -> int:
        """With how often they came back."""
        out = self.channel.connection.outbox.out
        for index in range(found.count):
            extra = counts_of(queue, found.lane, found.first + index)
            self._deliveries.encode_one(out, tag + index, True, found.batch, found.at + index, extra)
        return tag + found.count

    def _within(self, room: int, queue: Queue, found: list[Found]) -> list[Found]:
        """The limit of the whole channel: each of its consumers was promised all of what was left of it."""
        kept = []
        for one in found:
            count = min(one.count, max(room, 0))
            room -= count
            if count:
                kept.append(replace(one, count=count))
            if count < one.count:
                queue.put_back(one.lane, one.first + count, one.first + one.count)
        return kept

    def settled(self, count: int) -> None:
        """So many of its deliveries, or of others of its channel, are held no more."""
        self.in_flight -= count
        self.channel.in_flight -= count
        if self._is_short:
            self._is_short = False
            self.queue.wake()

    def wake(self) -> None:
        self.queue.wake()

    def stop(self) -> None:
        """What it was given stays with the channel."""
        if self.is_open:
            self.is_open = False
            self.queue.unsubscribe(self)

    def cancelled(self, why: str) -> None:
        """Its queue is gone."""
        self.is_open = False
        channel = self.channel
        channel.consumers.pop(self.tag, None)
        if channel.connection.session.can("consumer_cancel_notify"):
            channel.connection.send_behind(channel.number, commands.Basic.Cancel(self.tag, True))


def counts_of(queue: Queue, lane: int, offset: int) -> dict[str, int]:
    """The headers in which a quorum queue tells how often a message came back, and how often it failed."""
    state = queue.lanes[lane].state
    acquired, failed = state.acquired(offset), state.attempts(offset)
    found = {"x-acquired-count": acquired} if acquired else {}
    return {**found, "x-delivery-count": failed} if failed else found
