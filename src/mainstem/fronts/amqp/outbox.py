"""What is for a client: gathered in one buffer, written once a turn, counted until the client takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mainstem.fronts.amqp.session import Unsent

# Bytes made for a client in one turn, above which nothing more is delivered to it; the second while all
# clients of the listener together leave too much untaken.
MAX_BYTES = 1 << 20
MAX_BYTES_SCARCE = 64 << 10


class Turns(Protocol):
    def now(self) -> float: ...

    def soon(self, call: Callable[[], None]) -> object:
        """Run it after this turn of the loop."""


class Outbox:
    """Append whole frames to `out` and call `flush_soon`; after a flush `out` is another one."""

    __slots__ = (
        "_counted",
        "_is_closed",
        "_is_planned",
        "_is_starved",
        "_since",
        "_transport",
        "_turns",
        "_unsent",
        "before_flush",
        "is_paused",
        "last_sent",
        "on_room",
        "out",
    )

    def __init__(self, turns: Turns, unsent: Unsent) -> None:
        self._turns = turns
        self._unsent = unsent
        self._transport: asyncio.Transport | None = None
        self._counted = 0  # bytes that the transport holds, as counted for the listener
        self._since = 0.0  # the peer took something at that time or had nothing to take
        self._is_planned = False
        self._is_starved = False  # somebody was told that there is no room
        self._is_closed = False
        self.is_paused = False  # the peer takes nothing
        self.last_sent = 0.0
        self.out = bytearray()
        self.before_flush: Callable[[], None] = lambda: None
        self.on_room: Callable[[], None] = lambda: None  # there is room again

    def attach(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(1, 0)  # say at once when the peer takes nothing

    def close(self) -> None:
        self._is_closed = True
        self._unsent.held -= self._counted
        self._counted = 0

    @property
    def held_bytes(self) -> int:
        """Made for this client and not taken by it."""
        return len(self.out) + (self._transport.get_write_buffer_size() if self._transport else 0)

    @property
    def is_full(self) -> bool:
        """Too much was made for this client that it has not taken."""
        most = MAX_BYTES_SCARCE if self._unsent.is_full else MAX_BYTES
        if self.is_paused or len(self.out) > most:
            self._is_starved = True
            return True
        return False

    def flush_soon(self) -> None:
        """Write what is in `out` after this turn, with what others add to it."""
        if not self._is_planned:
            self._is_planned = True
            self._turns.soon(self.flush)

    def flush_unless_planned(self) -> None:
        if self.out and not self._is_planned:
            self.flush()

    def flush(self) -> None:
        self._is_planned = False
        if self._is_closed or self._transport is None:
            return
        if not self.is_paused:
            self.before_flush()
        if self.out:
            out, self.out = self.out, bytearray()
            self.last_sent = self._turns.now()
            self._transport.write(out)
            if self.is_paused:
                self._count()
        if self._is_starved and not self.is_paused:
            self._is_starved = False
            self.on_room()

    def pause(self) -> None:
        self.is_paused = True
        self._count()

    def resume(self) -> None:
        self.is_paused = False
        self._count()
        self.flush()

    def stalled_s(self) -> float:
        """How long the peer has not taken what was made for it; 0 if there is nothing to take."""
        if not self._counted:
            return 0.0
        self._count()
        return self._turns.now() - self._since

    def _count(self) -> None:
        held = self._transport.get_write_buffer_size() if self.is_paused and self._transport else 0
        if held < self._counted or not self._counted:
            self._since = self._turns.now()
        self._unsent.held += held - self._counted
        self._counted = held
