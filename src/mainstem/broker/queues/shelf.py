"""What all lanes together keep of their batches, opened, so as not to read them again: so much, and no more.

A queue with a backlog and a consumer that takes nothing keeps what was opened for it, and there may be ten
thousand such queues. Those that were read longest ago are forgotten first, and read again once somebody takes
them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

MOST_BYTES = 64 << 20
# Read at first of a lane: this part of what is free, within these bounds.
SHARE = 64
MOST_READ_BYTES = 1 << 20
LEAST_READ_BYTES = 4 << 10


class Keeper(Protocol):
    def __hash__(self) -> int: ...

    def make_room(self) -> None:
        """Keep nothing any more, and say so with `remove`."""


class Shelf:
    __slots__ = ("_sizes", "bytes", "most_bytes")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0  # of all; some of it may be gone already, until its keeper says so
        self._sizes: OrderedDict[Keeper, int] = OrderedDict()  # who keeps how much; the next to forget first

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def read_bytes(self) -> int:
        """How much to read at once of a lane that was not read before. May be asked by any thread."""
        return min(max((self.most_bytes - self.bytes) // SHARE, LEAST_READ_BYTES), MOST_READ_BYTES)

    def put(self, keeper: Keeper, size: int) -> None:
        """It keeps so much from now on, in all, and is the last in line to forget it."""
        sizes = self._sizes
        self.bytes += size - sizes.pop(keeper, 0)
        sizes[keeper] = size
        # Whoever was just served stays, however much it is: it has to get on.
        while self.bytes > self.most_bytes and len(sizes) > 1:
            next(iter(sizes)).make_room()

    def remove(self, keeper: Keeper) -> None:
        self.bytes -= self._sizes.pop(keeper, 0)
