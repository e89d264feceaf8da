"""Received bytes become frames, without copying a frame that fits.

Bytes are received into a slab; a frame is a view into it. A slab is never written twice, because views into
it live on in the journal until their round is on disk; what is used up is left to the garbage collector.

Pure: no socket here. `room()` gives the place for the next bytes, `received(n)` says how many came,
`next_frame()` returns a frame or None ("more").
"""

from __future__ import annotations

from struct import Struct

from mainstem.model.errors import RequestTooLarge

SIZE = Struct(">i")
_INT16 = Struct(">h")
SMALLEST_SLAB = 16 << 10
LARGEST_SLAB = 256 << 10
# Below this much free space a slab is not worth receiving into.
SMALLEST_ROOM = 2 << 10
# A frame beyond this size gets its memory as its bytes arrive, not when it is announced.
TRUSTED_BYTES = 4 << 20


class Inbox:
    __slots__ = ("_end", "_next_slab", "_slab", "_start", "_view", "_wanted", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._next_slab = SMALLEST_SLAB
        self._slab = bytearray(0)
        self._view = memoryview(self._slab)
        self._start = 0  # of the first frame not yet taken
        self._end = 0  # of what was received
        self._wanted = 0  # size of the frame at _start, its prefix included; 0: not known yet

    @property
    def buffered(self) -> int:
        """Bytes received and not yet taken."""
        return self._end - self._start

    @property
    def wanted(self) -> int:
        """Size of the frame that is being received, 0 if its size has not come yet."""
        return self._wanted

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        have = self._end - self._start
        needed = max(self._wanted - have, 1)
        free = len(self._slab) - self._end
        if free < needed and free < max(SMALLEST_ROOM, min(needed, TRUSTED_BYTES)):
            self._new_slab(have)
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size; raises RequestTooLarge before memory is spent on one."""
        have = self._end - self._start
        if have < 4:
            return None
        if not self._wanted:
            (size,) = SIZE.unpack_from(self._slab, self._start)
            if not 0 < size <= self.max_bytes:
                raise RequestTooLarge(f"a request of {size} bytes; at most {self.max_bytes} are taken")
            self._wanted = size + 4
        if have < self._wanted:
            return None
        start, self._start = self._start, self._start + self._wanted
        self._wanted = 0
        return self._view[start + 4 : self._start]

    def peek_int16(self) -> int | None:
        """The first two bytes of the next frame, if they are here."""
        start = self._start
        return _INT16.unpack_from(self._slab, start + 4)[0] if self._end - start >= 6 else None

    def _new_slab(self, have: int) -> None:
        """Move what is left of a frame to a fresh slab that holds it and, if it is small, many more."""
        if self._wanted <= TRUSTED_BYTES:
            size = max(self._next_slab, self._wanted)
        else:
            size = min(self._wanted, max(TRUSTED_BYTES, 2 * have))
        slab = bytearray(size)
        view = memoryview(slab)
        view[:have] = self._view[self._start : self._end]
        self._slab, self._view, self._start, self._end = slab, view, 0, have
        self._next_slab = min(2 * self._next_slab, LARGEST_SLAB)

    def rest(self) -> None:
        """Nothing is expected for a while: hold on to no more memory than a new connection does."""
        if self._start == self._end and len(self._slab) > SMALLEST_SLAB:
            self._slab = bytearray(0)
            self._view = memoryview(self._slab)
            self._start = self._end = 0
            self._next_slab = SMALLEST_SLAB
