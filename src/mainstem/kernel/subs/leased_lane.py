"""A lane whose messages are lent: each to one holder, until a deadline, and only so many times.

What a holder has is in flight in the lane and leased to it, always both. It comes back when the holder fails,
goes, or lets its time pass; each such return counts, and what came back too often is given up as if it were
acked. Who changes it learns what to journal: what is done with, and what failed how often so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mainstem.kernel.subs.attempts import Attempts
from mainstem.kernel.subs.lane import Lane
from mainstem.kernel.subs.leases import Leases

Ranges = tuple[tuple[int, int], ...]
Counts = tuple[tuple[int, int, int], ...]  # first, stop, how often they failed


class Lent(NamedTuple):
    first: int
    stop: int
    delivery: int  # which delivery of them this is, from 1


class Settled(NamedTuple):
    """For the journal: replayed any number of times, it leaves the same."""

    done: Ranges
    failed: Counts


NOTHING = Settled((), ())


class LeasedLane:
    __slots__ = ("_failed", "_lane", "_leases")

    def __init__(self, leases: Leases[LeasedLane, str], floor: int = 0) -> None:
        self._leases = leases  # of many lanes together: they share a clock
        self._lane = Lane(floor, floor)
        self._failed = Attempts()

    @property
    def floor(self) -> int:
        """All below are done with."""
        return self._lane.floor

    @property
    def in_flight(self) -> int:
        return self._lane.in_flight

    @property
    def left(self) -> int:
        """How many below the end are not done with."""
        return self._lane.ready + self._lane.in_flight

    @property
    def end(self) -> int:
        return self._lane.end

    def done(self) -> Iterator[tuple[int, int]]:
        """Those above the floor that are done with."""
        return self._lane.acked()

    def failed(self) -> Counts:
        return tuple(self._failed.ranges())

    # --- lend --------------------------------------------------------------------------------------

    def grow(self, end: int) -> None:
        self._lane.grow(end)

    def lend(self, holder: str, count: int, deadline_ms: int) -> list[Lent]:
        """The oldest that are ready, up to `count` of them."""
        if count <= 0:
            return []
        lent: list[Lent] = []
        for run in self._lane.take(count):
            self._leases.hold(self, run.first, run.stop, deadline_ms, holder)
            lent += self._counted(run.first, run.stop)
        return lent

    def lend_on(self, holder: str, first: int, stop: int, deadline_ms: int) -> list[Lent]:
        """Those that follow, from `first` on, as far as they are the next in turn and below `stop`."""
        runs = self._lane.peek(stop - first) if first < stop else []
        if not runs or runs[0].first != first:
            return []
        return self.lend(holder, runs[0].stop - first, deadline_ms)

    def _counted(self, first: int, stop: int) -> Iterator[Lent]:
        for piece_first, piece_stop, count in self._failed.split(first, stop):
            yield Lent(piece_first, piece_stop, count + 1)

    # --- and take back -----------------------------------------------------------------------------

    def holds(self, holder: str, first: int, stop: int) -> bool:
        first = max(first, self.floor)
        return first >= stop or self._leases.has_all(self, first, stop, holder)

    def renew(self, holder: str, first: int, stop: int, deadline_ms: int) -> None:
        self._leases.renew(self, first, stop, deadline_ms, holder)

    def finish(self, holder: str, first: int, stop: int) -> Settled:
        """Of these, what the holder has is done with."""
        done = [(one.first, one.stop) for one in self._leases.release(self, first, stop, holder)]
        for one_first, one_stop in done:
            self._lane.ack(one_first, one_stop)
            self._failed.forget(one_first, one_stop)
        return Settled(tuple(done), ())

    def fail(self, holder: str, first: int, stop: int, most_deliveries: int) -> Settled:
        """Of these, what the holder has was delivered in vain."""
        released = self._leases.release(self, first, stop, holder)
        return self.came_back(((one.first, one.stop) for one in released), most_deliveries)

    def came_back(self, ranges: Iterable[tuple[int, int]], most_deliveries: int) -> Settled:
        """These are not leased any more, and nobody finished them."""
        done: list[tuple[int, int]] = []
        failed: list[tuple[int, int, int]] = []
        for range_first, range_stop in ranges:
            for first, stop, count in self._failed.split(range_first, range_stop):
                if count + 1 >= most_deliveries:
                    self._lane.ack(first, stop)
                    self._failed.forget(first, stop)
                    done.append((first, stop))
                else:
                    self._lane.give_back(first, stop, failed=False)
                    self._failed.put(first, stop, count + 1)
                    failed.append((first, stop, count + 1))
        return Settled(tuple(done), tuple(failed))

    def undo(self, holder: str, first: int, stop: int) -> None:
        """They were lent and never got to the holder: as if it had not been."""
        for one in self._leases.release(self, first, stop, holder):
            self._lane.give_back(one.first, one.stop, failed=False)

    # --- whoever holds it --------------------------------------------------------------------------

    def trim(self, start: int) -> None:
        """Nothing is there any more below `start`."""
        if start > self.floor:
            self._lane.grow(start)
            self._drop(self.floor, start)

    def seek(self, offset: int) -> None:
        """All below are done with, nothing else is."""
        self._leases.forget(self)
        self._lane = Lane(offset, offset)
        self._failed = Attempts()

    # --- replay ------------------------------------------------------------------------------------

    def restore(self, floor: int, settled: Settled) -> None:
        self.seek(floor)
        self.replay(settled)

    def replay(self, settled: Settled) -> None:
        for first, stop in settled.done:
            self._lane.grow(stop)
            self._drop(first, stop)
        for first, stop, count in settled.failed:
            self._lane.grow(stop)
            self._failed.put(max(first, self.floor), stop, count)

    def _drop(self, first: int, stop: int) -> None:
        self._leases.drop(self, first, stop)
        self._lane.ack(first, stop)
        self._failed.forget(first, stop)
