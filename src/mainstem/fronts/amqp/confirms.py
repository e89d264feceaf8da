"""Confirms: once for all that a turn published, when it is on disk.

Kept as numbers until they can be written: a client that does not read gets one confirm later, not many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.queues import Queues
from mainstem.fronts.amqp.outbox import Outbox
from mainstem.wire.amqp.methods import append_ack, append_nack

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel


class Confirms:
    """Of all channels of a connection."""

    __slots__ = ("_due", "_outbox", "_published", "_queues", "_under_way")

    def __init__(self, outbox: Outbox, queues: Queues) -> None:
        self._outbox = outbox
        self._queues = queues
        self._published: set[Channel] = set()  # on these, in this turn
        self._due: dict[Channel, int] = {}  # up to which message: on disk, not told yet
        self._under_way = 0

    @property
    def are_pending(self) -> bool:
        return self._under_way > 0 or bool(self._due)

    def published(self, channel: Channel, count: int) -> None:
        channel.published += count
        self._published.add(channel)

    def refused(self, channel: Channel) -> None:
        """One message, which no queue took."""
        channel.published += 1
        append_nack(self._outbox.out, channel.number, channel.published, False)
        self._outbox.flush_soon()

    def end_turn(self) -> None:
        """Have what was published until now confirmed once it is on disk."""
        if not self._published:
            return
        published = [(channel, channel.confirmed, channel.published) for channel in self._published]
        self._published.clear()
        for channel, _, upto in published:
            channel.confirmed = upto
        self._under_way += 1

        def on_disk() -> None:
            self._under_way -= 1
            for channel, _, upto in published:
                self._due[channel] = upto
            self._outbox.flush_soon()

        def no_room() -> None:
            self._under_way -= 1
            for channel, after, upto in published:
                if not channel.is_closing:
                    for number in range(after + 1, upto + 1):
                        append_nack(self._outbox.out, channel.number, number, False)
            self._outbox.flush_soon()

        self._queues.after_disk(on_disk, no_room)

    def tell(self) -> None:
        """Write those that are due."""
        if not self._due:
            return
        due, self._due = self._due, {}
        for channel, upto in due.items():
            if not channel.is_closing:
                append_ack(self._outbox.out, channel.number, upto, True)

    def tell_of(self, channel: Channel) -> None:
        """Before it is closed."""
        upto = self._due.pop(channel, None)
        if upto is not None:
            append_ack(self._outbox.out, channel.number, upto, True)
