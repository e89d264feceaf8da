"""Received bytes become frames, without copying a frame that fits.

Bytes are received into a slab; a frame is a view into it. A slab is not written again while a view into it
is in use (in the journal, until it was copied or its round is on disk): frames are counted, and whoever is
done with one gives it back. A slab whose frames all came back is used anew; one that lost count is left to
the collector.

Pure: no socket here. `room()` gives the place for the next bytes, `received(n)` says how many came,
`next_frame()` returns a frame or None ("more"). Types for the compiler are in inbox.pxd.
"""

from __future__ import annotations

from mainstem.model.big_endian import int16_at, int32_at
from mainstem.model.errors import RequestTooLarge

SMALLEST_SLAB = 16 << 10
LARGEST_SLAB = 256 << 10
# For frames that would fill a usual slab with a few: the rest of one that does not fit has to be moved.
ROOMY_SLAB = 1 << 20
ROOMY_FROM = 32 << 10
# Below this much free space a slab is not worth receiving into.
SMALLEST_ROOM = 2 << 10
# A frame beyond this size gets its memory as its bytes arrive, not when it is announced.
TRUSTED_BYTES = 4 << 20
# Slabs kept for use anew: as many as a busy producer has under way.
MAX_SPARE_BYTES = 16 << 20


class Slab:
    """Memory for frames. `frames` were taken and have not come back; `full` slabs get no more bytes."""

    __slots__ = ("data", "frames", "full", "view")

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.view = memoryview(self.data)
        self.frames = 0
        self.full = False


class Inbox:
    __slots__ = (
        "_end",
        "_next_size",
        "_spare",
        "_spare_bytes",
        "_start",
        "_wanted",
        "frame_end",
        "frame_start",
        "max_bytes",
        "slab",
    )

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        # The frame that was taken last is slab.data[frame_start:frame_end].
        self.slab = Slab(0)
        self.frame_start = 0
        self.frame_end = 0
        self._next_size = SMALLEST_SLAB
        self._spare: list[Slab] = []
        self._spare_bytes = 0
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
        if not have and not self.slab.frames and len(self.slab.data) >= self._next_size:
            # From the start again: memory that was just used is faster than any other.
            self._start = self._end = 0
        needed = max(self._wanted - have, 1)
        free = len(self.slab.data) - self._end
        if free < needed and free < max(SMALLEST_ROOM, min(needed, TRUSTED_BYTES)):
            self._new_slab(have)
            free = len(self.slab.data) - self._end
        if self._wanted > LARGEST_SLAB:
            # The frame behind a large one begins in a slab of its own: nothing of it need be moved.
            return self.slab.view[self._end : self._end + min(free, needed)]
        return self.slab.view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None."""
        return self.slab.view[self.frame_start : self.frame_end] if self.take_frame() else None

    def take_frame(self) -> bool:
        """Whether there was a whole frame to take; raises RequestTooLarge before memory is spent on one."""
        have = self._end - self._start
        if have < 4:
            return False
        if not self._wanted:
            size = int32_at(self.slab.data, self._start)
            if size <= 0 or size > self.max_bytes:
                raise RequestTooLarge(f"a request of {size} bytes; at most {self.max_bytes} are taken")
            self._wanted = size + 4
        if have < self._wanted:
            return False
        self.frame_start = self._start + 4
        self._start += self._wanted
        self.frame_end = self._start
        if self._wanted > LARGEST_SLAB:
            # Here comes someone with large requests: the next slab shall hold one whole.
            self._next_size = min(max(self._next_size, self._wanted), TRUSTED_BYTES)
        elif self._wanted > ROOMY_FROM and self._next_size < ROOMY_SLAB:
            self._next_size = ROOMY_SLAB
        self._wanted = 0
        self.slab.frames += 1
        return True

    def give_back(self, slab: Slab) -> None:
        """One frame of this slab is not looked at any more."""
        slab.frames -= 1
        if slab.full and slab.frames == 0:
            self._keep(slab)

    def peek_int16(self) -> int:
        """The first two bytes of the next frame as a number, -1 if they are not here."""
        return int16_at(self.slab.data, self._start + 4) if self._end - self._start >= 6 else -1

    def rest(self) -> None:
        """Not much is expected for a while: hold on to no more memory than a new connection does, or than the
        frame needs that was begun."""
        self._spare = []
        self._spare_bytes = 0
        self._next_size = SMALLEST_SLAB
        have = self._end - self._start
        size = max(SMALLEST_SLAB, have, min(self._wanted, TRUSTED_BYTES))
        # Moving much to save little would cost more, again and again while the rest trickles in.
        if len(self.slab.data) > 2 * size:
            slab = Slab(size if have else 0)
            slab.view[:have] = self.slab.view[self._start : self._end]
            # The old one is not marked full: whoever still has a frame of it drops it, it is no spare.
            self.slab = slab
            self._start, self._end = 0, have

    def _new_slab(self, have: int) -> None:
        """Move what is left of a frame to a slab that holds it and, if it is small, many more."""
        old, start, end = self.slab, self._start, self._end
        if self._wanted <= TRUSTED_BYTES:
            # What is left may be whole frames that cannot be taken yet, and more bytes must fit behind them.
            size = max(self._next_size, self._wanted, have + SMALLEST_ROOM)
        else:
            size = min(self._wanted, max(TRUSTED_BYTES, 2 * have))
        self.slab = self._fresh(size)
        self.slab.view[:have] = old.view[start:end]
        self._start, self._end = 0, have
        old.full = True
        if old.frames == 0:
            self._keep(old)
        if self._next_size < LARGEST_SLAB:
            self._next_size *= 2

    def _fresh(self, size: int) -> Slab:
        while self._spare:
            slab = self._spare.pop()
            self._spare_bytes -= len(slab.data)
            if len(slab.data) >= size:
                slab.full = False
                return slab
        return Slab(size)

    def _keep(self, slab: Slab) -> None:
        size = len(slab.data)
        if LARGEST_SLAB <= size <= TRUSTED_BYTES and self._spare_bytes + size <= MAX_SPARE_BYTES:
            self._spare.append(slab)
            self._spare_bytes += size
