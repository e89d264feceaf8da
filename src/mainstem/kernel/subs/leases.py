"""In flight with a deadline: who holds which messages, and until when.

A lane's leases lie in sorted lists, cut where a part is released or renewed. What is in flight is capped, so
plain lists do. The heap only says when to look where: an entry may outlive its lease, and an entry for the
whole of a run serves all that is left of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

L = TypeVar("L", bound=Hashable)
H = TypeVar("H", bound=Hashable)

SPARE_ENTRIES = 64  # of the heap, before it is made anew without those that outlived their lease


class Lease(NamedTuple, Generic[L, H]):
    lane: L
    first: int
    stop: int
    deadline_ms: int
    holder: H


class _OfLane(Generic[L, H]):
    """One lane's leases: disjoint, ascending."""

    __slots__ = ("firsts", "leases")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.leases: list[Lease[L, H]] = []

    def put(self, lease: Lease[L, H]) -> None:
        at = bisect_right(self.firsts, lease.first)
        self.firsts.insert(at, lease.first)
        self.leases.insert(at, lease)

    def overlapping(self, first: int, stop: int) -> slice:
        at = max(bisect_right(self.firsts, first) - 1, 0)
        if at < len(self.leases) and self.leases[at].stop <= first:
            at += 1
        return slice(at, bisect_left(self.firsts, stop, at))

    def cut(self, first: int, stop: int, wanted: Callable[[Lease[L, H]], bool]) -> list[Lease[L, H]]:
        """Take out what lies in [first, stop) and is wanted."""
        where = self.overlapping(first, stop)
        gone: list[Lease[L, H]] = []
        kept: list[Lease[L, H]] = []
        for lease in self.leases[where]:
            if not wanted(lease):
                kept.append(lease)
                continue
            cut_first, cut_stop = max(first, lease.first), min(stop, lease.stop)
            if lease.first < cut_first:
                kept.append(lease._replace(stop=cut_first))
            gone.append(lease._replace(first=cut_first, stop=cut_stop))
            if cut_stop < lease.stop:
                kept.append(lease._replace(first=cut_stop))
        if gone:
            self.leases[where] = kept
            self.firsts[where] = [lease.first for lease in kept]
        return gone


class Leases(Generic[L, H]):
    """`lane` and `holder` are whatever the caller tells lanes and holders apart by."""

    def __init__(self) -> None:
        self.count = 0  # messages that are held
        self._live = 0  # leases
        self._lanes: dict[L, _OfLane[L, H]] = {}
        self._heap: list[tuple[int, int, L, int, int]] = []  # deadline, entry's number, lane, first, stop
        self._entries = 0  # ever made: equal deadlines come in the order in which they were set

    def __iter__(self) -> Iterator[Lease[L, H]]:
        for of_lane in self._lanes.values():
            yield from of_lane.leases

    # --- change --------------------------------------------------------------------------------

    def hold(self, lane: L, first: int, stop: int, deadline_ms: int, holder: H) -> None:
        """From now on this holder has them; whoever had some of them before has them no more."""
        if first >= stop:
            return
        self._cut(lane, first, stop, lambda _: True)
        self._put(Lease(lane, first, stop, deadline_ms, holder))

    def renew(self, lane: L, first: int, stop: int, deadline_ms: int, holder: H) -> int:
        """Another deadline for those of them that this holder has. Returns how many it has."""
        mine = self._cut(lane, first, stop, lambda lease: lease.holder == holder)
        for lease in mine:
            self._put(lease._replace(deadline_ms=deadline_ms))
        return sum(lease.stop - lease.first for lease in mine)

    def release(self, lane: L, first: int, stop: int, holder: H) -> list[Lease[L, H]]:
        """Let go of those of them that this holder has: acked, given back. Returns what it had."""
        return self._cut(lane, first, stop, lambda lease: lease.holder == holder)

    def release_all(self, holder: H) -> list[Lease[L, H]]:
        """A holder is gone: what it had, to be given back."""
        gone: list[Lease[L, H]] = []
        for lane, of_lane in list(self._lanes.items()):
            first, stop = of_lane.firsts[0], of_lane.leases[-1].stop
            gone += self._cut(lane, first, stop, lambda lease: lease.holder == holder)
        return gone

    def drop(self, lane: L, first: int, stop: int) -> None:
        """Nobody has them any more: they are gone."""
        self._cut(lane, first, stop, lambda _: True)

    def forget(self, lane: L) -> None:
        """The lane is gone, or starts from elsewhere."""
        of_lane = self._lanes.pop(lane, None)
        if of_lane is not None:
            self.count -= sum(lease.stop - lease.first for lease in of_lane.leases)
            self._live -= len(of_lane.leases)

    def due(self, now_ms: int) -> list[Lease[L, H]]:
        """Those whose time is up, held no more: to be given back."""
        found: list[Lease[L, H]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, lane, first, stop = heappop(self._heap)
            found += self._cut(lane, first, stop, lambda lease: lease.deadline_ms <= now_ms)
        return found

    # --- look ----------------------------------------------------------------------------------

    def holder_of(self, lane: L, offset: int) -> H | None:
        found = self._within(lane, offset, offset + 1)
        return found[0].holder if found else None

    def has_all(self, lane: L, first: int, stop: int, holder: H) -> bool:
        """Whether this holder has every one of them."""
        for lease in self._within(lane, first, stop):
            if lease.holder != holder or lease.first > first:
                return False
            first = lease.stop
        return first >= stop

    def next_due_ms(self) -> int | None:
        """When `due` next finds something."""
        while self._heap:
            deadline_ms, _, lane, first, stop = self._heap[0]
            if any(lease.deadline_ms == deadline_ms for lease in self._within(lane, first, stop)):
                return deadline_ms
            heappop(self._heap)
        return None

    # --- parts of it ---------------------------------------------------------------------------

    def _within(self, lane: L, first: int, stop: int) -> list[Lease[L, H]]:
        of_lane = self._lanes.get(lane)
        return of_lane.leases[of_lane.overlapping(first, stop)] if of_lane else []

    def _cut(
        self, lane: L, first: int, stop: int, wanted: Callable[[Lease[L, H]], bool]
    ) -> list[Lease[L, H]]:
        of_lane = self._lanes.get(lane)
        if of_lane is None or first >= stop:
            return []
        self._live -= len(of_lane.leases)
        gone = of_lane.cut(first, stop, wanted)
        self._live += len(of_lane.leases)
        self.count -= sum(lease.stop - lease.first for lease in gone)
        if not of_lane.leases:
            del self._lanes[lane]
        return gone

    def _put(self, lease: Lease[L, H]) -> None:
        of_lane = self._lanes.get(lease.lane)
        if of_lane is None:
            of_lane = self._lanes[lease.lane] = _OfLane()
        of_lane.put(lease)
        self._live += 1
        self.count += lease.stop - lease.first
        heappush(self._heap, self._entry(lease))
        self._sweep()

    def _entry(self, lease: Lease[L, H]) -> tuple[int, int, L, int, int]:
        self._entries += 1
        return lease.deadline_ms, self._entries, lease.lane, lease.first, lease.stop

    def _sweep(self) -> None:
        """Make the heap anew once most of its entries outlived their lease."""
        if len(self._heap) > SPARE_ENTRIES + 4 * self._live:
            self._heap = [self._entry(lease) for lease in self]
            heapify(self._heap)
