"""Which large batches may be sent without being read first.

A batch is believed when this process has made sure of its bytes: it wrote them itself, or it has read them
and their crc matched. That is believed of bytes in memory only: once a part of a file was found to be missing
there, whatever of it is in memory came from the disk, and all of it has to be checked again.
"""

from __future__ import annotations

from mainstem.kernel.log.places import Place

# Smaller batches are read and checked each time: sending them from the file would not be faster.
LARGE_BATCH = 64 << 10
MAX_NOTED = 100_000


class SoundBatches:
    """Asked on the owner's thread; `note` may come from any."""

    __slots__ = ("_max_noted", "_noted", "_noted_count", "_written_from")

    def __init__(self, max_noted: int = MAX_NOTED) -> None:
        self._written_from: dict[int, int] = {}  # by file: what lies from there on was written by us
        self._noted: dict[int, set[int]] = {}  # by file: positions of batches that were read and matched
        self._noted_count = 0
        self._max_noted = max_noted

    def written_from(self, file_id: int, position: int) -> None:
        """All that follows in this file will be written by this process."""
        self._written_from[file_id] = position

    def note(self, place: Place) -> None:
        """The batch at this place was read from its file and is what it should be."""
        if self._noted_count >= self._max_noted:
            self._noted, self._noted_count = {}, 0
        noted = self._noted.setdefault(place.file_id, set())
        if place.position not in noted:
            noted.add(place.position)
            self._noted_count += 1

    def holds(self, place: Place) -> bool:
        written_from = self._written_from.get(place.file_id)
        if written_from is not None and place.position >= written_from:
            return True
        noted = self._noted.get(place.file_id)
        return noted is not None and place.position in noted

    def forget(self, file_id: int) -> None:
        """The file is gone, or some of it was not in memory: believe nothing in it."""
        self._written_from.pop(file_id, None)
        self._noted_count -= len(self._noted.pop(file_id, ()))
