"""How much of the log stays in the page cache: the newest, for consumers close behind.

Left alone, a fast writer fills all memory with pages that nobody reads, and each new one must be found by the
kernel first: that costs several times what writing to it does. And once as much was written as may stay, and
nobody has read any of it, what is written next need not be there at all.

A consumer that falls behind reads on in memory: as long as it is at the oldest of what stays, that does not
leave, and more may stay than usual. From the disk it would be slower, and fall behind further.

What is merged stays in memory if all that it was made of was still there: a run takes the place of its files.
It lies in the order of partitions, and leaves in that order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

# Somebody is at a file if it was read from since so many steps were written: as much as a file. Whoever keeps
# up has left the oldest that stays for longer than that.
_LATELY_STEPS = 8


class Part(NamedTuple):
    """Of a finished file."""

    file_id: int
    position: int
    size: int


class CachedFiles:
    """For the log's owner; `was_read` and `was_read_in` may come from any thread."""

    __slots__ = (
        "_bytes",
        "_due",
        "_lag_bytes",
        "_most_bytes",
        "_read_at",
        "_stays",
        "_step_bytes",
        "_unread_bytes",
        "_written_bytes",
    )

    def __init__(self, most_bytes: int, file_bytes: int, lag_bytes: int = 0) -> None:
        """`lag_bytes`: so much more may stay for consumers that fall behind."""
        self._most_bytes = most_bytes
        self._lag_bytes = lag_bytes
        # Besides what it frees, a step takes as long as two rounds: not too many of them.
        self._step_bytes = max(file_bytes // 8, 64 << 10)
        self._stays: list[Part] = []  # the oldest first: it leaves from its beginning on
        self._bytes = 0  # of these
        self._due = 0  # written since they were looked at
        self._unread_bytes = 0  # written since anything was read
        self._written_bytes = 0  # in all
        self._read_at: dict[int, int] = {}  # by file: how much was written when it was last read from

    def finished(self, file_id: int, size: int) -> None:
        self._stays.append(Part(file_id, 0, size))
        self._bytes += size

    def keeps(self, file_ids: Collection[int]) -> bool:
        """These files count as in memory, all of them."""
        whole = {part.file_id for part in self._stays if part.position == 0}
        return whole.issuperset(file_ids) and not self.is_unread()

    def merged(self, inputs: Collection[int], gone: Collection[int], runs: Sequence[tuple[int, int]]) -> None:
        """`runs`, ids and sizes, are in memory and as old as the inputs. The files that are gone are not."""
        older = next((at for at, part in enumerate(self._stays) if part.file_id in inputs), 0)
        parts = [Part(file_id, 0, size) for file_id, size in runs]
        stays = [*self._stays[:older], *parts, *self._stays[older:]]
        self._stays = [part for part in stays if part.file_id not in gone]
        self._bytes = sum(part.size for part in self._stays)

    def was_read(self) -> None:
        self._unread_bytes = 0

    def was_read_in(self, file_id: int) -> None:
        self._read_at[file_id] = self._written_bytes

    def is_unread(self) -> bool:
        """As much was written as may stay, and nobody wanted any of it."""
        return self._unread_bytes >= self._most_bytes

    def written(self, size: int, active_bytes: int) -> list[Part]:
        """What has to leave because of it, now and then."""
        self._unread_bytes += size
        self._written_bytes += size
        self._due += size
        leaving: list[Part] = []
        if self._due < self._step_bytes:
            return leaving
        self._due = 0
        lately = self._written_bytes - _LATELY_STEPS * self._step_bytes
        self._read_at = {file_id: at for file_id, at in list(self._read_at.items()) if at >= lately}
        stays = self._stays
        while stays and self._bytes + active_bytes > self._most_bytes:
            file_id, position, left = stays[0]
            if file_id in self._read_at and self._bytes + active_bytes <= self._most_bytes + self._lag_bytes:
                break
            step = min(left, self._step_bytes)
            leaving.append(Part(file_id, position, step))
            self._bytes -= step
            if step < left:
                stays[0] = Part(file_id, position + step, left - step)
            else:
                del stays[0]
        return leaving
