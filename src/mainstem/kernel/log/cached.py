"""How much of the log stays in the page cache: the newest, for consumers close behind.

Left alone, a fast writer fills all memory with pages that nobody reads, and each new one must be found by the
kernel first: that costs several times what writing to it does. And once as much was written as may stay, and
nobody has read any of it, what is written next need not be there at all.

What is merged stays as long as it would have without that: a run takes the place of the files it was made of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """Of a finished file."""

    file_id: int
    position: int
    size: int


class CachedFiles:
    """For the log's owner; `was_read` may come from any thread."""

    __slots__ = ("_due", "_most_bytes", "_stays", "_step_bytes", "_unread_bytes")

    def __init__(self, most_bytes: int, file_bytes: int) -> None:
        self._most_bytes = most_bytes
        # Besides what it frees, a step takes as long as two rounds: not too many of them.
        self._step_bytes = max(file_bytes // 8, 64 << 10)
        self._stays: list[Part] = []  # the oldest first: it leaves from its beginning on
        self._due = 0  # written since they were looked at
        self._unread_bytes = 0  # written since anything was read

    def finished(self, file_id: int, size: int) -> None:
        self._stays.append(Part(file_id, 0, size))

    def keeps(self, file_ids: Collection[int]) -> bool:
        """All that these files hold is wanted in memory."""
        whole = {part.file_id for part in self._stays if part.position == 0}
        return whole.issuperset(file_ids) and not self.is_unread()

    def merged(self, file_ids: Collection[int], runs: Sequence[tuple[int, int]]) -> None:
        """The files are gone; `runs`, ids and sizes, are in memory instead."""
        kept = [part for part in self._stays if part.file_id not in file_ids]
        older = next((at for at, part in enumerate(self._stays) if part.file_id in file_ids), 0)
        kept[older:older] = (Part(file_id, 0, size) for file_id, size in runs)
        self._stays = kept

    def was_read(self) -> None:
        self._unread_bytes = 0

    def is_unread(self) -> bool:
        """As much was written as may stay, and nobody wanted any of it."""
        return self._unread_bytes >= self._most_bytes

    def written(self, size: int, active_bytes: int) -> list[Part]:
        """What has to leave because of it, now and then."""
        self._unread_bytes += size
        self._due += size
        leaving: list[Part] = []
        if self._due < self._step_bytes:
            return leaving
        self._due = 0
        stays = self._stays
        over = sum(part.size for part in stays) + active_bytes - self._most_bytes
        while stays and over > 0:
            file_id, position, left = stays[0]
            step = min(left, self._step_bytes)
            leaving.append(Part(file_id, position, step))
            over -= step
            if step < left:
                stays[0] = Part(file_id, position + step, left - step)
            else:
                del stays[0]
        return leaving
