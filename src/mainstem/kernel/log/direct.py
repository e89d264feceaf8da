"""Rounds that go to disk past the page cache.

What nobody reads soon need not be in memory. Through the page cache it costs a copy into pages that have to
be found first, a walk over them for the disk, and another one to give them back; past it, one copy into a
buffer that is always the same.

Such a write takes whole blocks. A round begins and ends within one: what the disk has of the first block
already is written once more, as it would be through the page cache, and the last one is filled up with the
zeros that are there anyway.
"""

from __future__ import annotations

import contextlib
import mmap

from mainstem.model.ports import BLOCK_BYTES, Buffer, File

# A smaller round costs no less this way.
LEAST_BYTES = 256 << 10
MOST_BYTES = 4 << 20
FEW_CHUNKS = 256
_BUFFER_BYTES = MOST_BYTES + (2 << 20)


class DirectWriter:
    """For one writer's thread."""

    def __init__(self) -> None:
        self._buffer: memoryview | None = None
        self._end = (0, 0)  # file and position behind the last round that went this way
        self._begun = b""  # what the block with that position holds so far

    def write(
        self, file: File, file_id: int, chunks: list[Buffer], position: int, size: int, capacity: int
    ) -> bool:
        """False, and nothing has changed, if they have to go another way. Else they are on disk."""
        lead = position % BLOCK_BYTES
        whole = -(-(lead + size) // BLOCK_BYTES) * BLOCK_BYTES
        if not LEAST_BYTES <= size <= MOST_BYTES or position - lead + whole > capacity:
            return False
        buffer = self._buffer
        if buffer is None:
            buffer = self._buffer = _whole_pages()
        known = self._end == (file_id, position)
        buffer[:lead] = self._begun if known else file.pread(lead, position - lead)
        at = lead
        # Many small ones are put together faster than one by one.
        for chunk in chunks if len(chunks) <= FEW_CHUNKS else [b"".join(chunks)]:
            stop = at + len(chunk)
            buffer[at:stop] = chunk
            at = stop
        buffer[at:whole] = bytes(whole - at)
        if not file.write_direct(buffer[:whole], position - lead):
            return False
        self._end = (file_id, position + size)
        self._begun = bytes(buffer[at - at % BLOCK_BYTES : at])
        return True


def _whole_pages() -> memoryview:
    """Memory that begins with a block, as that of a bytearray would not; in few large pages where it can."""
    memory = mmap.mmap(-1, _BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Not for children: private memory must not be written from while it may be shared with one.
    for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
        if hasattr(mmap, advice):
            with contextlib.suppress(OSError):  # a kernel without it
                memory.madvise(getattr(mmap, advice))
    return memoryview(memory)
