"""Where a large round is put together before it goes to disk, past the page cache.

A stage is memory in whole blocks, and a round lies in it as it will lie in its file. Large batches are
copied here as they come, by the owner's thread, while its processor still has their bytes at hand. The
writer's thread would have to fetch them from another processor, and the owner would wait for Python's lock
meanwhile. And the memory that they came in is free again at once.

Types for the compiler are in stage.pxd.
"""

from __future__ import annotations

import contextlib
import mmap

from mainstem.kernel.log.layout import FRAME_HEAD_BYTES, ROUND_FRAME_BYTES
from mainstem.model.ports import BLOCK_BYTES, Buffer

MOST_BYTES = 4 << 20
# A round is staged if it begins with such a batch; for smaller ones a copy of their own does not pay.
LEAST_BATCH_BYTES = 32 << 10
# One is filled, one is full, one is on its way to the disk, one waits until its round was told to everybody.
MOST_STAGES = 4
_MEMORY_BYTES = MOST_BYTES + (2 << 20)


class Stage:
    """`buffer[lead:end]` is the round so far: room for its own frame, then `count` payloads, each behind room
    for its head. `plain` is the round's."""

    __slots__ = ("buffer", "count", "end", "lead", "plain", "position")

    def __init__(self) -> None:
        self.buffer = whole_pages()
        self.begin(0)

    def begin(self, position: int) -> None:
        """A new round, which will lie at this position of its file."""
        self.position = position
        self.lead = position % BLOCK_BYTES
        self.end = self.lead + ROUND_FRAME_BYTES
        self.count = 0
        self.plain = True

    @property
    def size(self) -> int:
        return self.end - self.lead

    def put(self, payload: Buffer) -> memoryview | None:
        """The payload, as it lies here from now on; None if there is no room, or if it does not pay."""
        size = len(payload)
        at = self.end + FRAME_HEAD_BYTES
        stop = at + size
        if stop > MOST_BYTES or (size < LEAST_BATCH_BYTES and not self.count):
            return None
        copy = self.buffer[at:stop]
        copy[:] = payload
        self.end = stop
        self.count += 1
        return copy

    def put_heads(self, frames: list[Buffer]) -> None:
        """What is still missing of the round. `frames` is all of it, heads and bodies by turns."""
        buffer, at = self.buffer, self.lead
        stop = at + ROUND_FRAME_BYTES
        buffer[at:stop] = b"".join(frames[:2])
        for index in range(2, len(frames), 2):
            at = stop
            stop = at + FRAME_HEAD_BYTES
            buffer[at:stop] = frames[index]
            stop += len(frames[index + 1])


class Stages:
    """The stages of one writer, made when they are needed."""

    def __init__(self) -> None:
        self._free: list[Stage] = []
        self._made = 0

    def take(self, position: int) -> Stage | None:
        """One for a round that will lie there, if there is one."""
        if self._free:
            stage = self._free.pop()
        elif self._made < MOST_STAGES:
            try:
                stage = Stage()
            except OSError:  # no memory for it: a round can do without
                return None
            self._made += 1
        else:
            return None
        stage.begin(position)
        return stage

    def give_back(self, stage: Stage) -> None:
        self._free.append(stage)


def whole_pages() -> memoryview:
    """Memory that begins with a block, as that of a bytearray would not; in few large pages where it can."""
    memory = mmap.mmap(-1, _MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Not for children: private memory must not be written from while it may be shared with one.
    for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
        if hasattr(mmap, advice):
            with contextlib.suppress(OSError):  # a kernel without it
                memory.madvise(getattr(mmap, advice))
    return memoryview(memory)
