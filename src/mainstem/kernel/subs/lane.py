"""The delivery state of one partition: which offsets are acked, in flight, or ready.

    floor               next                 end
      |  acked            |  ready (new)       |
    --+-------------------+--------------------+---> offsets
      |  in flight        |  acked ahead       |
      |  ready (returned) |                    |

Below `floor` all is acked. An offset below `next` was taken at least once: it is in flight, came back, or is
acked; the first two are kept as ranges, acked is the rest. From `next` on all is ready, but for what was
acked before its turn. So a backlog costs nothing, in-order work keeps one range, and an ack far from the
floor splits one range in flight.

Rules: `next` is at or above `floor`, at or below `end`, and not acked ahead; `floor` is the lowest offset
that is not acked, or `end`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import NamedTuple

from mainstem.kernel.subs.attempts import Attempts
from mainstem.kernel.subs.ranges import RangeSet


class Run(NamedTuple):
    first: int
    stop: int
    again: bool  # may have been delivered before


class Lane:
    __slots__ = ("_again_below", "_ahead", "_attempts", "_held", "_next", "_released", "_returned", "end")

    def __init__(self, floor: int = 0, end: int = 0) -> None:
        self.end = max(floor, end)  # all below may be delivered
        self._next = floor  # all below were taken before
        self._held = RangeSet()  # in flight
        self._returned = RangeSet()  # taken and given back
        self._ahead = RangeSet()  # acked at or above next
        self._again_below = (
            floor  # those below may have been delivered by an earlier process, or before a seek
        )
        self._attempts: Attempts | None = None  # most lanes have none
        self._released: Attempts | None = None  # how often given back without having failed

    # --- what there is -------------------------------------------------------------------------

    @property
    def floor(self) -> int:
        """All below are acked."""
        held, returned = self._held, self._returned
        if held:
            return min(held.first(), returned.first()) if returned else held.first()
        return returned.first() if returned else self._next

    @property
    def ready(self) -> int:
        return self._returned.count + self.end - self._next - self._ahead.count

    @property
    def in_flight(self) -> int:
        return self._held.count

    @property
    def delivered(self) -> int:
        """What is at or above this was never taken: `restore` wants it as `delivered_before`."""
        return max(self._next, self._again_below)

    def attempts(self, offset: int) -> int:
        """How many deliveries of it failed so far."""
        return self._attempts.of(offset) if self._attempts else 0

    def acquired(self, offset: int) -> int:
        """How often somebody had it and gave it back, of which is known; failed deliveries too."""
        return self.attempts(offset) + (self._released.of(offset) if self._released else 0)

    def failed(self) -> list[tuple[int, int, int]]:
        """The attempts of all that have any, as (first, stop, attempts), for a snapshot."""
        return self._attempts.ranges() if self._attempts else []

    def attempt_runs(self, first: int, stop: int) -> list[tuple[int, int, int]]:
        """(first, stop, attempts) of all in [first, stop), those with as many together."""
        return self._attempts.split(first, stop) if self._attempts else [(first, stop, 0)]

    def is_acked(self, offset: int) -> bool:
        if offset >= self._next:
            return offset in self._ahead
        return offset not in self._held and offset not in self._returned

    def is_ready(self, offset: int) -> bool:
        """Below the end, not acked, and nobody holds it."""
        if offset >= self._next:
            return offset < self.end and offset not in self._ahead
        return offset in self._returned

    def acked(self) -> Iterator[tuple[int, int]]:
        """The acked ranges above the floor, ascending. Do not change the lane meanwhile."""
        at = self.floor
        for first, stop in merge(self._held, self._returned):
            if at < first:
                yield at, first
            at = stop
        if at < self._next:
            yield at, self._next
        yield from self._ahead

    def held(self) -> Iterator[tuple[int, int]]:
        """The ranges in flight, ascending. Do not change the lane meanwhile."""
        return iter(self._held)

    def peek(self, count: int) -> list[Run]:
        """What `take` would return, without taking it."""
        runs = [Run(first, stop, True) for first, stop in self._returned.lowest(count)]
        wanted = count - sum(run.stop - run.first for run in runs)
        at = self._next
        for acked_first, acked_stop in self._ahead:
            if wanted <= 0:
                return runs
            first, at = at, min(acked_first, at + wanted)
            self._add_new(runs, first, at)
            wanted -= at - first
            at = acked_stop
        if wanted > 0:
            self._add_new(runs, at, min(self.end, at + wanted))
        return runs

    # --- change --------------------------------------------------------------------------------

    def grow(self, end: int) -> None:
        """All below `end` may be delivered now."""
        if end > self.end:
            self.end = end

    def take(self, count: int) -> list[Run]:
        """The oldest that are ready, up to `count` of them: in flight from now on."""
        if not self._ahead and not self._returned:  # the usual case
            runs: list[Run] = []
            first = self._next
            stop = min(first + count, self.end)
            self._add_new(runs, first, stop)
            if first < stop:
                self._held.add(first, stop)
                self._next = stop
            return runs
        runs = self.peek(count)
        if runs:
            for run in runs:
                self._held.add(run.first, run.stop)
            last = runs[-1].stop
            if last > self._next:
                self._ahead.remove(self._next, last)
                self._move_next(last)
            self._returned.remove(runs[0].first, last)
        return runs

    def ack(self, first: int, stop: int) -> int:
        """Done with them, in flight or ready. Returns how many were not acked before."""
        stop = min(stop, self.end)
        if first >= stop:
            return 0
        acked = self._held.remove(first, stop)
        if self._returned:
            acked += self._returned.remove(first, stop)
        if stop > self._next:
            if first > self._next:
                acked += self._ahead.add(first, stop)
            else:
                acked += stop - self._next - self._ahead.remove(self._next, stop)
                self._move_next(stop)
        if self._attempts:
            self._attempts.forget(first, stop)
        if self._released:
            self._released.forget(first, stop)
        return acked

    def give_back(self, first: int, stop: int, failed: bool = True, released: bool = False) -> int:
        """Those in flight are ready again, at their old place. Returns how many were in flight.

        It is counted for each of them that its delivery `failed`, or that it was `released`, which may happen
        any number of times.
        """
        given = 0
        for piece_first, piece_stop in self._held.within(first, stop):
            given += self._returned.add(piece_first, piece_stop)
            if failed:
                self._attempts = self._attempts or Attempts()
                self._attempts.failed(piece_first, piece_stop)
            elif released:
                self._released = self._released or Attempts()
                self._released.failed(piece_first, piece_stop)
        self._held.remove(first, stop)
        return given

    def seek(self, offset: int) -> None:
        """Deliver from here on, whatever was acked: all below count as acked, nothing is in flight."""
        delivered = self.delivered
        self._start_at(min(offset, self.end))
        self._again_below = delivered

    def restore(
        self,
        floor: int,
        acked: Iterable[tuple[int, int]],
        delivered_before: int,
        attempts: Iterable[tuple[int, int, int]],
    ) -> None:
        """Take up what an earlier process left: what it had in flight is ready again.

        What was acked was once below the end, so the end is at least there.
        """
        self.grow(floor)
        self._start_at(floor)
        for first, stop in acked:
            self.grow(stop)
            self._ahead.add(max(first, floor), stop)
        self._move_next(floor)
        self._again_below = delivered_before
        known = Attempts()
        known.load(attempts)
        if known:
            known.forget(0, self._next)
            for first, stop in self._ahead:
                known.forget(first, stop)
            self._attempts = known

    def restore_failed(self, first: int, stop: int, attempts: int) -> None:
        """So many deliveries of them failed in an earlier process. Those below the floor are left out."""
        if self._attempts is None:
            self._attempts = Attempts()
        self._attempts.put_at_least(max(first, self.floor), stop, attempts)

    # --- parts of it ---------------------------------------------------------------------------

    def _start_at(self, offset: int) -> None:
        self._next = offset
        self._held.clear()
        self._returned.clear()
        self._ahead.clear()
        self._attempts = self._released = None

    def _move_next(self, to: int) -> None:
        """Move `next`, and on over what was acked ahead from there."""
        self._next = self._ahead.next_missing(to)
        if self._next != to:
            self._ahead.remove(to, self._next)

    def _add_new(self, runs: list[Run], first: int, stop: int) -> None:
        if first >= stop:
            return
        if first < self._again_below < stop:
            runs.append(Run(first, self._again_below, True))
            first = self._again_below
        runs.append(Run(first, stop, first < self._again_below))
