"""How many bytes lie in queues that have a limit on it: a number for each message, in those queues only."""

from __future__ import annotations

from array import array

from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.queue import Queue, Waits


class LaneSizes:
    """Sizes of the bodies from offset `first` on."""

    __slots__ = ("first", "sizes")

    def __init__(self, first: int) -> None:
        self.first = first
        self.sizes = array("I")


class Sizes:
    def __init__(self) -> None:
        self._lanes: dict[QueueLane, LaneSizes] = {}

    def ready_bytes(self, queue: Queue) -> int:
        """Of messages that nobody holds. Raises Waits while some have to be read first."""
        return sum(sum(self._ready(queue, lane)) for lane in queue.lanes)

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
        sizes = [size for lane in queue.lanes for size in self._ready(queue, lane)]
        over, extra = sum(sizes) - limit, 0
        while over > 0 and extra < len(sizes):
            over -= sizes[extra]
            extra += 1
        return extra

    def _ready(self, queue: Queue, lane: QueueLane) -> list[int]:
        known = self._known(queue, lane)
        found: list[int] = []
        for run in lane.state.peek(lane.state.ready):
            found += known.sizes[run.first - known.first : run.stop - known.first]
        return found

    def _known(self, queue: Queue, lane: QueueLane) -> LaneSizes:
        """Up to date: what came is added, what went is forgotten."""
        lane.grow()
        floor, end = lane.state.floor, lane.state.end
        known = self._lanes.get(lane)
        if known is None:
            known = self._lanes[lane] = LaneSizes(floor)
        if floor - known.first > 1024 or floor > known.first + len(known.sizes):
            del known.sizes[: floor - known.first]
            known.first = floor
        at = known.first + len(known.sizes)
        while at < end:
            batch = queue.opened(lane, at)
            known.sizes.extend(max(span[7], 0) for span in batch.spans[at - batch.base_offset :])
            at = batch.stop
        return known

    def forget(self, queue: Queue) -> None:
        for lane in queue.lanes:
            self._lanes.pop(lane, None)
