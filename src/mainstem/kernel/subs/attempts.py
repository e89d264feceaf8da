"""How many deliveries of a message failed, for the few that have any.

Messages mostly fail in runs (a consumer goes with all it held) and the same few times, so each count keeps
the ranges of those that failed so often. Counting ends at MOST_COUNTED: every step looks at all counts there
are, and somebody might make many different ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.kernel.subs.ranges import RangeSet

MOST_COUNTED = 1000


class Attempts:
    __slots__ = ("_by_count",)

    def __init__(self) -> None:
        self._by_count: dict[int, RangeSet] = {}  # count -> who failed exactly so often; no set is empty

    def __bool__(self) -> bool:
        return bool(self._by_count)

    def of(self, offset: int) -> int:
        for count, ranges in self._by_count.items():
            if offset in ranges:
                return count
        return 0

    def split(self, first: int, stop: int) -> list[tuple[int, int, int]]:
        """All of [first, stop) as (first, stop, count), ascending; those that never failed too."""
        known = [
            (*one, count) for count, ranges in self._by_count.items() for one in ranges.within(first, stop)
        ]
        if not known:
            return [(first, stop, 0)] if first < stop else []
        pieces: list[tuple[int, int, int]] = []
        for piece in sorted(known):
            if first < piece[0]:
                pieces.append((first, piece[0], 0))
            pieces.append(piece)
            first = piece[1]
        if first < stop:
            pieces.append((first, stop, 0))
        return pieces

    def put(self, first: int, stop: int, count: int) -> None:
        """All of [first, stop) failed exactly so often."""
        self.forget(first, stop)
        if count > 0 and first < stop:
            self._put(count, first, stop)

    def put_at_least(self, first: int, stop: int, count: int) -> None:
        """All of [first, stop) failed so often, if not more: told late or twice, it changes nothing."""
        for known_first, known_stop, known in self.split(first, stop):
            if known < count:
                self.put(known_first, known_stop, count)

    def failed(self, first: int, stop: int) -> None:
        """One more for all of [first, stop)."""
        known: list[tuple[int, int, int]] = []
        for count in list(self._by_count):
            found = self._by_count[count].within(first, stop)
            if found:
                known += [(count, *one) for one in found]
                self._take_out(count, first, stop)
        if len(known) == 1 and known[0][1:] == (first, stop):  # the usual case: all failed as often before
            self._put(known[0][0] + 1, first, stop)
            return
        self._put(1, first, stop)
        for count, known_first, known_stop in known:
            self._take_out(1, known_first, known_stop)
            self._put(count + 1, known_first, known_stop)

    def forget(self, first: int, stop: int) -> None:
        for count in list(self._by_count):
            self._take_out(count, first, stop)

    def load(self, counts: Iterable[tuple[int, int, int]]) -> None:
        """What `ranges` gave: no two of them overlap."""
        for first, stop, count in counts:
            if count > 0 and first < stop:
                self._put(count, first, stop)

    def ranges(self) -> list[tuple[int, int, int]]:
        """All that have any, as (first, stop, count), ascending."""
        return sorted((*one, count) for count, ranges in self._by_count.items() for one in ranges)

    def _put(self, count: int, first: int, stop: int) -> None:
        count = min(count, MOST_COUNTED)
        ranges = self._by_count.get(count)
        if ranges is None:
            ranges = self._by_count[count] = RangeSet()
        ranges.add(first, stop)

    def _take_out(self, count: int, first: int, stop: int) -> None:
        ranges = self._by_count.get(count)
        if ranges is not None:
            ranges.remove(first, stop)
            if not ranges:
                del self._by_count[count]
