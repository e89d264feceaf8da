"""Acknowledgements on their way to the disk: gathered for a moment, then journalled together."""

from __future__ import annotations

import asyncio

from mainstem.broker.queues.deltas import Acked, Delivering
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.store import Section, Store
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
        self._timer: asyncio.TimerHandle | None = None

    def note(self, lane: QueueLane, first: int, stop: int) -> None:
        """In memory it is done; the disk follows."""
        ranges = self._pending.get(lane)
        if ranges is None:
            self._pending[lane] = [(first, stop)]
            if self._timer is None:
                self._timer = self._loop.call_later(GATHER_S, self.flush)
        elif ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], stop)
        else:
            ranges.append((first, stop))

    def flush(self) -> None:
        """Journal what is pending. Whatever is journalled after it is on disk only when this is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        try:
            self._store.log.check_room(64 * len(self._pending), frees_space=True)
        except DiskFull:  # even the reserve is used up: they wait, in memory
            self._timer = self._loop.call_later(PATIENCE_S, self.flush)
            return
        pending, self._pending = self._pending, {}
        delta = Acked(tuple((lane.partition.id, tuple(ranges)) for lane, ranges in pending.items()))
        floors = [(lane, lane.state.floor) for lane in pending]

        def on_disk(_: object) -> None:
            for lane, floor in floors:
                lane.trim(floor)

        self._store.append(Section.ACKS, delta, on_disk)

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
            lane.marking = self._store.commit(Section.ACKS, delta, essential=True, then=on_disk)
        return lane.marking
