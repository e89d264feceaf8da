"""Rounds that go to disk past the page cache.

What nobody reads soon need not be in memory. Through the page cache it costs a copy into pages that have to
be found first, a walk over them for the disk, and another one to give them back; past it, one copy into
memory that is used again and again.

Such a write takes whole blocks. A round begins and ends within one: what the disk has of the first block
already is written once more, as it would be through the page cache, and the last one is filled up with the
zeros that are there anyway.
"""

from __future__ import annotations

from mainstem.kernel.log.stage import MOST_BYTES, Stage, whole_pages
from mainstem.model.ports import BLOCK_BYTES, Buffer, File

# A smaller round costs no less this way.
LEAST_BYTES = 256 << 10
FEW_CHUNKS = 256


class DirectWriter:
    """For one writer's thread."""

    def __init__(self) -> None:
        self._buffer: memoryview | None = None  # for rounds that come in chunks
        self._refused = 0  # the file that takes nothing this way
        self._end = (0, 0)  # file and position behind the last round that went this way
        self._begun = b""  # what the block with that position holds so far

    def may_take(self, file_id: int) -> bool:
        """Unless this file has refused before."""
        return file_id != self._refused

    def write(
        self, file: File, file_id: int, chunks: list[Buffer], position: int, size: int, capacity: int
    ) -> bool:
        """False, and nothing has changed, if they have to go another way. Else they are on disk."""
        if not (_fits(position, size, capacity) and self.may_take(file_id)):
            return False
        if self._buffer is None:
            try:
                self._buffer = whole_pages()
            except OSError:  # no memory for it
                return False
        buffer, at = self._buffer, position % BLOCK_BYTES
        # Many small ones are put together faster than one by one.
        for chunk in chunks if len(chunks) <= FEW_CHUNKS else [b"".join(chunks)]:
            stop = at + len(chunk)
            buffer[at:stop] = chunk
            at = stop
        return self._write(file, file_id, buffer, position, size)

    def write_staged(self, file: File, file_id: int, stage: Stage, position: int, capacity: int) -> bool:
        """The same, for a round that lies where it has to."""
        if not (_fits(position, stage.size, capacity) and self.may_take(file_id)):
            return False
        return self._write(file, file_id, stage.buffer, position, stage.size)

    def _write(self, file: File, file_id: int, buffer: memoryview, position: int, size: int) -> bool:
        """The round is in the buffer; what is around it in its blocks is not yet."""
        lead = position % BLOCK_BYTES
        end = lead + size
        whole = _blocks(end)
        known = self._end == (file_id, position)
        buffer[:lead] = self._begun if known else file.pread(lead, position - lead)
        buffer[end:whole] = bytes(whole - end)
        if not file.write_direct(buffer[:whole], position - lead):
            self._refused = file_id
            return False
        self._end = (file_id, position + size)
        self._begun = bytes(buffer[end - end % BLOCK_BYTES : end])
        return True


def _blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _fits(position: int, size: int, capacity: int) -> bool:
    return LEAST_BYTES <= size <= MOST_BYTES and _blocks(position + size) <= capacity
