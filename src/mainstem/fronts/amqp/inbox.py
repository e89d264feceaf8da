"""Where a connection's bytes are received, and from where they are scanned. Pure: no socket here.

A slab of memory holds what came and was not scanned yet, which is less than a frame most of the time. Events
of a scan point into the slab. While some of them wait, bytes go on to arrive behind; when the slab is full
and waited for, the rest moves to another one and the events keep theirs.
"""

from __future__ import annotations

SMALLEST_SLAB = 16 << 10
LARGEST_SLAB = 256 << 10
# Below this much free space a slab is not worth receiving into.
SMALLEST_ROOM = 2 << 10


class Inbox:
    __slots__ = ("_next_size", "_view", "data", "end", "start")

    def __init__(self) -> None:
        self.data = bytearray()
        self._view = memoryview(self.data)
        self._next_size = SMALLEST_SLAB
        self.start = 0  # of the first byte not scanned
        self.end = 0  # of what was received

    @property
    def buffered(self) -> int:
        return self.end - self.start

    def room(self, waiting: bool) -> memoryview:
        """Where the next bytes go, never empty.

        `waiting`: events still point into this slab, so that nothing of it may be written again.
        """
        if self.start == self.end and not waiting:
            self.start = self.end = 0
        if len(self.data) - self.end < SMALLEST_ROOM:
            self._move(waiting)
        return self._view[self.end :]

    def received(self, count: int) -> None:
        self.end += count

    def rest(self) -> None:
        """Nothing is expected for a while: hold on to no memory."""
        if self.start == self.end:
            self._replace(0)
            self._next_size = SMALLEST_SLAB

    def _move(self, waiting: bool) -> None:
        """The rest goes to the front of this slab or, if that is in use or too small, of a larger one."""
        rest = bytes(self._view[self.start : self.end])
        wanted = max(len(rest) + SMALLEST_ROOM, self._next_size)
        if waiting or len(self.data) < wanted:
            self._replace(wanted)
            self._next_size = min(self._next_size * 2, LARGEST_SLAB)
        self._view[: len(rest)] = rest
        self.start, self.end = 0, len(rest)

    def _replace(self, size: int) -> None:
        self.data = bytearray(size)
        self._view = memoryview(self.data)
        self.start = self.end = 0
