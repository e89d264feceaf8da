"""Which stretches of files may be sent without being read first.

Bytes are believed when this process has made sure of them: it wrote them itself, or it has read them and they
matched their crc; and when they are still in memory. What comes from the disk is doubted: what was found
missing, what is about to be read, and what was asked of the disk ahead. It is believed again once it was
checked. Not seen is what the kernel drops and another process (a merge, a backup) brings back: those check
what they read, and say so.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from itertools import islice
from threading import Lock

# Less is read and checked each time: sending it from the file would not be faster.
LARGE_SLICE = 64 << 10
MAX_STRETCHES = 20_000
MAX_DOUBTS = 1_000
EVERYTHING = 1 << 62


class Stretches:
    """Stretches of one file that do not touch each other, in order."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        # Those that touch it are from `first` to before `after`.
        first, after = bisect_left(ends, start), bisect_right(starts, end)
        if first < after:
            start, end = min(start, starts[first]), max(end, ends[after - 1])
        starts[first:after] = array("q", (start,))
        ends[first:after] = array("q", (end,))

    def cut(self, start: int, end: int) -> None:
        starts, ends = self._starts, self._ends
        first, after = bisect_right(ends, start), bisect_left(starts, end)
        if first >= after:
            return
        left = [(starts[first], start)] if starts[first] < start else []
        right = [(end, ends[after - 1])] if ends[after - 1] > end else []
        starts[first:after] = array("q", (piece[0] for piece in (*left, *right)))
        ends[first:after] = array("q", (piece[1] for piece in (*left, *right)))

    def touches(self, start: int, end: int) -> bool:
        return bisect_left(self._ends, start) < bisect_right(self._starts, end)

    def end_of(self, position: int) -> int:
        """Where the stretch ends that `position` lies in; `position` if it lies in none."""
        at = bisect_right(self._starts, position)
        return max(position, self._ends[at - 1]) if at else position


class SoundBytes:
    """Asked and told from any thread."""

    __slots__ = ("_checked", "_doubt_count", "_doubts", "_lock", "_max_stretches", "_written_from")

    def __init__(self, max_stretches: int = MAX_STRETCHES) -> None:
        self._lock = Lock()
        self._written_from: dict[int, int] = {}  # by file: what lies from there on was written by us
        self._checked: dict[int, Stretches] = {}  # by file: batches that were read and matched
        self._max_stretches = max_stretches
        self._doubts: deque[tuple[int, int, int]] = deque(maxlen=MAX_DOUBTS)  # file, start, end; latest first
        self._doubt_count = 0  # of all there ever were

    def written_from(self, file_id: int, position: int) -> None:
        """All that follows in this file will be written by this process."""
        self._written_from[file_id] = position

    def mark(self) -> int:
        """Before a file is read; for `note`."""
        return self._doubt_count

    def note(self, mark: int, file_id: int, start: int, end: int) -> None:
        """The batches there were read from their file after `mark` and are what they should be."""
        with self._lock:
            written_from = self._written_from.get(file_id)
            checked = self._checked.get(file_id)
            doubted_since = self._doubt_count - mark
            if written_from is not None and start >= written_from:
                return
            if end - start < LARGE_SLICE and (checked is None or not checked.touches(start, end)):
                return
            if doubted_since > len(self._doubts):
                return  # nobody remembers of which bytes
            if checked is None:
                checked = self._checked[file_id] = Stretches()
            checked.add(start, end)
            for doubted, doubt_start, doubt_end in islice(self._doubts, doubted_since):
                if doubted == file_id:
                    checked.cut(doubt_start, doubt_end)
            if sum(map(len, self._checked.values())) > self._max_stretches:
                self._checked = {}

    def end_of(self, file_id: int, position: int) -> int:
        """Up to where all is sound from `position` on; `position` if nothing is."""
        with self._lock:
            written_from = self._written_from.get(file_id)
            if written_from is not None and position >= written_from:
                return EVERYTHING
            checked = self._checked.get(file_id)
            return checked.end_of(position) if checked is not None else position

    def doubt(self, file_id: int, start: int, end: int) -> None:
        """These bytes are not in memory, or were not. Whoever is still at checking them is not believed."""
        with self._lock:
            self._doubts.appendleft((file_id, start, end))
            self._doubt_count += 1
            written_from = self._written_from.get(file_id)
            if written_from is not None and end > written_from:
                self._written_from[file_id] = end
                if written_from < start:
                    self._checked.setdefault(file_id, Stretches()).add(written_from, start)
            checked = self._checked.get(file_id)
            if checked is not None:
                checked.cut(start, end)

    def forget(self, file_id: int) -> None:
        """The file is gone, or may leave memory: believe nothing in it."""
        self.doubt(file_id, 0, EVERYTHING)
        self._written_from.pop(file_id, None)
        self._checked.pop(file_id, None)
