"""Which stretches of files may be sent without being read first.

A batch is believed when this process has made sure of its bytes: it wrote them itself, or it has read them
and their crc matched. That is believed of bytes in memory only: once a part of a file was found to be missing
there, whatever of it is in memory came from the disk, and all of it has to be checked again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque

# Less is read and checked each time: sending it from the file would not be faster.
LARGE_SLICE = 64 << 10
MAX_STRETCHES = 20_000
MAX_NEWS = 1_000
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
        at = bisect_right(starts, start)
        if at and ends[at - 1] >= start:
            at -= 1
            ends[at] = max(ends[at], end)
        else:
            starts.insert(at, start)
            ends.insert(at, end)
        while at + 1 < len(starts) and starts[at + 1] <= ends[at]:
            ends[at] = max(ends[at], ends.pop(at + 1))
            starts.pop(at + 1)

    def end_of(self, position: int) -> int:
        """Where the stretch ends that `position` lies in; `position` if it lies in none."""
        at = bisect_right(self._starts, position)
        return max(position, self._ends[at - 1]) if at else position


class SoundBytes:
    """Asked on the owner's thread; `mark` and `note` may come from any."""

    __slots__ = ("_checked", "_doubted", "_doubts", "_forgotten", "_max_stretches", "_news", "_written_from")

    def __init__(self, max_stretches: int = MAX_STRETCHES) -> None:
        self._written_from: dict[int, int] = {}  # by file: what lies from there on was written by us
        self._checked: dict[int, Stretches] = {}  # by file: batches that were read and matched
        self._max_stretches = max_stretches
        self._doubts = 0  # how often something was found to be missing
        self._doubted: dict[int, int] = {}  # by file: its last doubt
        self._forgotten = 0  # doubts up to this one may have been of any file
        # Learnt when the owner asks next. Of many news the oldest are lost: nobody may ever ask.
        self._news: deque[tuple[int, int, int, int]] = deque(maxlen=MAX_NEWS)

    def written_from(self, file_id: int, position: int) -> None:
        """All that follows in this file will be written by this process."""
        self._written_from[file_id] = position

    def mark(self) -> int:
        """Before a file is read; for `note`."""
        return self._doubts

    def note(self, mark: int, file_id: int, start: int, end: int) -> None:
        """The batches there were read from their file after `mark` and are what they should be."""
        if end - start < LARGE_SLICE:
            return
        written_from = self._written_from.get(file_id)
        if written_from is None or start < written_from:
            self._news.append((mark, file_id, start, end))

    def end_of(self, file_id: int, position: int) -> int:
        """Up to where all is sound from `position` on; `position` if nothing is."""
        if self._news:
            self._learn()
        written_from = self._written_from.get(file_id)
        if written_from is not None and position >= written_from:
            return EVERYTHING
        checked = self._checked.get(file_id)
        return checked.end_of(position) if checked is not None else position

    def forget(self, file_id: int, upto: int = EVERYTHING) -> None:
        """Some of the file below `upto` was not in memory, or all of it is gone: believe nothing that was
        checked in it, also by who is still at it, and what was written from `upto` on only."""
        self._doubts += 1
        if len(self._doubted) >= MAX_NEWS:
            self._doubted.clear()
            self._forgotten = self._doubts
        self._doubted[file_id] = self._doubts
        self._checked.pop(file_id, None)
        written_from = self._written_from.pop(file_id, None)
        if written_from is not None and upto < EVERYTHING:
            self._written_from[file_id] = max(written_from, upto)

    def _learn(self) -> None:
        while self._news:
            mark, file_id, start, end = self._news.popleft()
            if mark >= self._doubted.get(file_id, self._forgotten):
                self._checked.setdefault(file_id, Stretches()).add(start, end)
        if sum(map(len, self._checked.values())) > self._max_stretches:
            self._checked = {}
