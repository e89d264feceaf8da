"""Entries that become due at a time of their own, from milliseconds to centuries ahead.

Each lies in two sorted containers, by time and by id: what is due next is at the front of one, and an id is
found in the other. A million entries take about 40 MB, and no step looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mainstem.kernel.timers.pairs import HIGHEST, LOWEST, Pairs
from mainstem.model.errors import InvalidRequest

SLICE_ENTRIES = 4096


class Part(NamedTuple):
    """Some entries of a dump, as two columns."""

    ids: list[int]
    due_ms: list[int]


class Timers:
    """Ids are the caller's, any 64-bit integers. Times are milliseconds since 1970.

    Entries of the same millisecond are due in the order of their ids: with ids that are counted up, first
    come, first served.
    """

    def __init__(self) -> None:
        self._by_time = Pairs()  # (due ms, id)
        self._by_id = Pairs()  # (id, due ms), one for each id

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: int) -> bool:
        return self._by_id.last_of(id) is not None

    def due_of(self, id: int) -> int | None:
        """When this one is due; None if it is not pending."""
        return self._by_id.last_of(id)

    def add(self, due_ms: int, id: int) -> None:
        """An id that is pending already moves to the new time, so doing this twice does no harm."""
        if not (LOWEST <= due_ms <= HIGHEST and LOWEST <= id <= HIGHEST):
            raise InvalidRequest("a time and an id must fit in 64 bits")
        before_ms = self._by_id.last_of(id)
        if before_ms == due_ms:
            return
        if before_ms is not None:
            self.cancel(id)
        self._by_id.add(id, due_ms)
        self._by_time.add(due_ms, id)

    def cancel(self, id: int) -> bool:
        """False if it was not pending."""
        due_ms = self._by_id.last_of(id)
        if due_ms is None:
            return False
        self._by_id.remove(id, due_ms)
        self._by_time.remove(due_ms, id)
        return True

    def next_due_ms(self) -> int | None:
        """When to ask again; in the past if something is overdue, None if nothing is pending."""
        first = self._by_time.first()
        return None if first is None else first[0]

    def due(self, now_ms: int, limit: int) -> list[int]:
        """Takes out what is due, the longest overdue first. If there may be more, as many as `limit` come.

        They are pending no more: write down what becomes of them in the same turn, or add them again.
        """
        times_ms, ids = self._by_time.take(now_ms, limit)
        for due_ms, id in zip(times_ms, ids, strict=True):
            self._by_id.remove(id, due_ms)
        return ids

    def pending(self, limit: int, after: tuple[int, int] = (LOWEST, LOWEST)) -> list[tuple[int, int]]:
        """(due ms, id) of the next ones after that pair, without taking them: to look through in pages."""
        times_ms, ids = self._by_time.after(*after, limit)
        return list(zip(times_ms, ids, strict=True))

    def dump(self, slice_entries: int = SLICE_ENTRIES) -> Iterator[Part]:
        """All entries by ascending id, none twice. May be taken in slices while entries come and go: those
        that stay are in it, the others may or may not be, so replay what changed since this call."""
        id, due_ms = LOWEST, LOWEST
        while True:
            ids, times_ms = self._by_id.after(id, due_ms, slice_entries)
            if not ids:
                return
            # An id that moves to a later time meanwhile must not come again.
            id, due_ms = ids[-1], HIGHEST
            yield Part(ids, times_ms)

    def restore(self, part: Part) -> None:
        """Adds what a dump had."""
        for id, due_ms in zip(part.ids, part.due_ms, strict=True):
            self.add(due_ms, id)
