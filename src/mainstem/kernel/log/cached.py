"""How much of the journal stays in the page cache: the newest, for consumers close behind.

Left alone, a fast writer fills all memory with pages that nobody reads, and each new one must be found by the
kernel first: that costs several times what writing to it does. And once as much was written as may stay, and
nobody has read any of it, what is written next need not be there at all.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Leaving(NamedTuple):
    """A part of a finished file that may leave memory."""

    file_id: int
    position: int
    size: int


class CachedFiles:
    """For the log's owner; `was_read` may come from any thread."""

    __slots__ = ("_bytes", "_due", "_files", "_left_to", "_most_bytes", "_step_bytes", "_unread_bytes")

    def __init__(self, most_bytes: int, file_bytes: int) -> None:
        self._most_bytes = most_bytes
        # Besides what it frees, a step takes as long as two rounds: not too many of them.
        self._step_bytes = max(file_bytes // 8, 64 << 10)
        self._files: deque[tuple[int, int]] = deque()  # finished, with their sizes, the oldest first
        self._left_to = 0  # up to where the oldest has left
        self._bytes = 0  # of finished files
        self._due = 0  # written since they were looked at
        self._unread_bytes = 0  # written since anything was read

    def finished(self, file_id: int, size: int) -> None:
        self._files.append((file_id, size))
        self._bytes += size

    def was_read(self) -> None:
        self._unread_bytes = 0

    def is_unread(self) -> bool:
        """As much was written as may stay, and nobody wanted any of it."""
        return self._unread_bytes >= self._most_bytes

    def written(self, size: int, active_bytes: int) -> list[Leaving]:
        """What has to go because of it, now and then."""
        self._unread_bytes += size
        self._due += size
        leaving: list[Leaving] = []
        if self._due < self._step_bytes:
            return leaving
        self._due = 0
        while self._files and self._bytes + active_bytes > self._most_bytes:
            file_id, file_bytes = self._files[0]
            start, self._left_to = self._left_to, min(self._left_to + self._step_bytes, file_bytes)
            self._bytes -= self._left_to - start
            leaving.append(Leaving(file_id, start, self._left_to - start))
            if self._left_to == file_bytes:
                self._files.popleft()
                self._left_to = 0
        return leaving
