"""How many bytes lie in queues that have a limit on it: a number for each message, in those queues only."""

from __future__ import annotations

from array import array
from bisect import bisect_left

from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.queue import Queue, Waits


class LaneSizes:
    """`sums[i]`: bytes of bodies from offset `first` up to below `first + i`."""

    __slots__ = ("first", "sums")

    def __init__(self, first: int) -> None:
        self.first = first
        self.sums = array("Q", (0,))

    @property
    def stop(self) -> int:
        return self.first + len(self.sums) - 1

    def add(self, sizes: list[int]) -> None:
        total = self.sums[-1]
        for size in sizes:
            total += size
            self.sums.append(total)

    def between(self, first: int, stop: int) -> int:
        return self.sums[stop - self.first] - self.sums[first - self.first]

    def forget_below(self, floor: int) -> None:
        """The sums go on counting from where they began."""
        del self.sums[: floor - self.first]
        self.first = floor


class Sizes:
    def __init__(self) -> None:
        self._lanes: dict[QueueLane, LaneSizes] = {}

    def ready_bytes(self, queue: Queue) -> int:
        """Of messages that nobody holds. Raises Waits while some have to be read first."""
        return sum(self._ready(queue, lane) for lane in queue.lanes)

    def known_bytes(self, queue: Queue) -> int | None:
        """The same; None while it is not known."""
        try:
            return self.ready_bytes(queue)
        except Waits:
            return None

    def is_full(self, queue: Queue, limit: int) -> bool:
        """Whether there is more. As far as it is known without waiting for the disk."""
        try:
            return self.ready_bytes(queue) > limit
        except Waits:
            return False

    def too_many(self, queue: Queue, limit: int) -> int:
        """How many of the oldest have to go, so that the others are within the limit."""
        over, extra = self.ready_bytes(queue) - limit, 0
        for lane in queue.lanes:
            known = self._known(queue, lane)
            for run in lane.state.peek(lane.state.ready):
                if over <= 0:
                    return extra
                start = known.sums[run.first - known.first]
                # The first sum that makes up for it: all before that offset go.
                at = bisect_left(known.sums, start + over, run.first - known.first, run.stop - known.first)
                stop = min(known.first + at, run.stop)
                over -= known.between(run.first, stop)
                extra += stop - run.first
        return extra

    def _ready(self, queue: Queue, lane: QueueLane) -> int:
        known = self._known(queue, lane)
        return sum(known.between(run.first, run.stop) for run in lane.state.peek(lane.state.ready))

    def _known(self, queue: Queue, lane: QueueLane) -> LaneSizes:
        """Up to date: what came is added, what went is forgotten."""
        lane.grow()
        floor, end = lane.state.floor, lane.state.end
        known = self._lanes.get(lane)
        if known is None or floor > known.stop:
            known = self._lanes[lane] = LaneSizes(floor)
        elif floor - known.first > 1024:
            known.forget_below(floor)
        while known.stop < end:
            batch = queue.opened(lane, known.stop)
            known.add([max(span[7], 0) for span in batch.spans[known.stop - batch.base_offset :]])
        return known

    def forget(self, queue: Queue) -> None:
        for lane in queue.lanes:
            self._lanes.pop(lane, None)
