"""Acknowledgements on their way to the disk: gathered for a moment, then journalled together.

So are counts of failed deliveries: a message that comes back again and again is written once in a while, with
the count that it has by then.
"""

from __future__ import annotations

import asyncio

from mainstem.broker.queues.deltas import Acked, Counts, Delivering, Failed
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.store import Section, Store
from mainstem.kernel.subs.ranges import RangeSet
from mainstem.model.errors import DiskFull

# A plain acknowledgement waits at most so long for others.
GATHER_S = 0.05
# On a full disk it is tried again so much later.
PATIENCE_S = 1.0
# Messages that are noted as being delivered ahead of their delivery, so as not to do it for each.
MARK_AHEAD = 10_000


class AckKeeper:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._pending: dict[QueueLane, list[tuple[int, int]]] = {}
        self._failed: dict[QueueLane, RangeSet] = {}  # whose counts changed since they were journalled
        self._timer: asyncio.TimerHandle | None = None

    def note(self, lane: QueueLane, first: int, stop: int) -> None:
        """In memory it is done; the disk follows."""
        ranges = self._pending.get(lane)
        if ranges is None:
            self._pending[lane] = [(first, stop)]
            self._plan(GATHER_S)
        elif ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], stop)
        else:
            ranges.append((first, stop))

    def note_failed(self, lane: QueueLane, first: int, stop: int) -> None:
        """The lane has counted another failed delivery of these."""
        ranges = self._failed.get(lane)
        if ranges is None:
            ranges = self._failed[lane] = RangeSet()
            self._plan(GATHER_S)
        ranges.add(first, stop)

    def _plan(self, after_s: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(after_s, self.flush)

    def flush(self) -> None:
        """Journal what is pending. Whatever is journalled after it is on disk only when this is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            if self._pending:
                self._journal_acked()
            if self._failed:
                self._journal_failed()
        except DiskFull:  # even the reserve is used up: they wait, in memory
            self._plan(PATIENCE_S)

    def _journal_acked(self) -> None:
        needed = sum(64 + 20 * len(ranges) for ranges in self._pending.values())
        self._store.log.check_room(needed, frees_space=True)
        pending, self._pending = self._pending, {}
        delta = Acked(tuple((lane.partition.id, tuple(ranges)) for lane, ranges in pending.items()))
        floors = [(lane, lane.state.floor) for lane in pending]

        def on_disk(_: object) -> None:
            for lane, floor in floors:
                lane.trim(floor)

        self._store.append(Section.ACKS, delta, on_disk)

    def _journal_failed(self) -> None:
        counted = tuple(
            (lane.partition.id, counts)
            for lane, ranges in self._failed.items()
            if (counts := _counts(lane, ranges))
        )
        # They free nothing: on a full disk acknowledgements go first.
        needed = sum(64 + 30 * len(counts) for _, counts in counted)
        self._store.log.check_room(needed, essential=True)
        self._failed = {}
        if counted:
            self._store.append(Section.ACKS, Failed(counted), lambda _: None)

    async def on_disk(self) -> None:
        """All that was acknowledged so far is on disk when this returns."""
        self.flush()
        await self._store.barrier()

    def mark(self, lane: QueueLane, upto: int) -> asyncio.Future[None]:
        """Note that messages below `upto`, and some more, may be delivered from now on."""
        if lane.marking is None:
            upto += MARK_AHEAD

            def on_disk() -> None:
                lane.delivered_upto = upto
                lane.marking = None

            delta = Delivering(lane.partition.id, upto)
            # Only what is delivered can be acknowledged, and then deleted.
            lane.marking = self._store.commit(Section.ACKS, delta, frees_space=True, then=on_disk)
        return lane.marking


def _counts(lane: QueueLane, changed: RangeSet) -> Counts:
    """As they are now; those that are acknowledged meanwhile have none."""
    runs = (run for first, stop in changed for run in lane.state.attempt_runs(first, stop))
    return tuple(run for run in runs if run[2])
