"""The way ahead of a reader: large batches of its partition, one behind the other, found once for many reads.

A consumer reads on where it stopped. To look each time for the places, and for whether their bytes may be
sent unread, takes longer than to hand out the slice that comes next.

What is kept are numbers. Another offset than the next one, bytes that are doubted again or not in memory any
more, and a merge (whose files may still be there, for the links that lead into them) end it: the reader asks
the log again.

Types for the compiler are in stretch.pxd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.reader import NEAR, BodyReader
from mainstem.kernel.log.sound import LARGE_SLICE
from mainstem.model.errors import MainstemError
from mainstem.model.ports import File
from mainstem.model.slices import Chunk, FileSlice

if TYPE_CHECKING:
    from mainstem.kernel.log.log import Log

# Looked for at once; in steps, as what lies ahead may be thousands of small batches.
AHEAD_BYTES = 8 << 20
STEP_BYTES = 1 << 20


def find_stretch(log: Log, partition: int, offset: int, upto: int) -> Stretch | None:
    """What can be sent unread from `offset` on, up to the first batch that cannot; None if that is the first.

    On the owner's thread.
    """
    reader = log.reader
    found: Stretch | None = None
    mark, size = reader.mark(), 0
    while size < AHEAD_BYTES:
        try:
            places = log.places(partition, offset, STEP_BYTES, upto)
        except (WouldBlock, MainstemError, OSError):  # whoever gets there is told
            return found
        if not places:
            return found
        if found is None:
            found = Stretch(reader, places[0].file_id, mark, offset)
        for place in places:
            if not found.add(place):
                return found if len(found) else None
            size += place.size
        offset = places[-1].last + 1
    return found


class Stretch:
    """Batches of file `file_id`, none of them a link, in the order of their offsets.

    Nothing lies between them but heads of frames: what is not asked for need not be in memory.
    """

    __slots__ = (
        "_afters",
        "_at",
        "_ends",
        "_mark",
        "_moves",
        "_positions",
        "_reader",
        "file_id",
        "next_offset",
    )

    def __init__(self, reader: BodyReader, file_id: int, mark: int, first_offset: int) -> None:
        self._reader = reader
        self._moves = reader.moves
        self.file_id = file_id
        self._mark = mark  # nothing of it is in doubt while nothing was doubted since
        self.next_offset = first_offset  # of the reader that comes next
        self._positions: list[int] = []
        self._ends: list[int] = []
        self._afters: list[int] = []  # the offset behind each
        self._at = 0

    def __len__(self) -> int:
        return len(self._positions) - self._at

    def add(self, place: Place) -> bool:
        """False: this batch does not belong here."""
        start, end = place.position, place.position + place.size
        if place.size < LARGE_SLICE or place.link or place.file_id != self.file_id:
            return False
        if self._ends and not 0 <= start - self._ends[-1] <= NEAR:
            return False
        if not self._reader.is_sound(self.file_id, start, end):
            return False
        self._positions.append(start)
        self._ends.append(end)
        self._afters.append(place.last + 1)
        return True

    def take(self, offset: int, max_bytes: int, upto: int) -> list[Chunk]:
        """What a reader gets from `offset` on, one batch at least. Nothing if the log has to be asked."""
        positions, ends, afters = self._positions, self._ends, self._afters
        first = at = self._at
        count = len(positions)
        reader = self._reader
        if offset != self.next_offset or at == count or reader.moves != self._moves:
            return []
        file = reader.open_file(self.file_id)
        if file is None:
            return []
        doubted = reader.mark() != self._mark
        left = max_bytes
        while at < count and left > 0:
            size = ends[at] - positions[at]
            if afters[at] > upto or (size > left and at > first):
                break
            if doubted and not reader.is_sound(self.file_id, positions[at], ends[at]):
                return []
            left -= size
            at += 1
        if at == first or (at == count and left > 0 and afters[at - 1] < upto):
            return []  # more may fit than is known here
        start, end = positions[first], ends[at - 1]
        if not reader.is_in_memory(self.file_id, start, end):
            return []
        self._at = at
        self.next_offset = afters[at - 1]
        if at == first + 1:
            return [FileSlice(file, start, end - start)]
        return self._slices(file, first, at)

    def _slices(self, file: File, first: int, after: int) -> list[Chunk]:
        """Those that lie one behind the other are one."""
        found: list[Chunk] = []
        start, end = self._positions[first], self._ends[first]
        for at in range(first + 1, after):
            position = self._positions[at]
            if position != end:
                found.append(FileSlice(file, start, end - start))
                start = position
            end = self._ends[at]
        found.append(FileSlice(file, start, end - start))
        return found
