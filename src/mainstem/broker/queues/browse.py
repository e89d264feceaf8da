"""Look at a queue's messages without taking them: nothing about them changes, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.opened import OpenBatch
from mainstem.broker.queues.queue import Queue
from mainstem.broker.store import Store
from mainstem.kernel.subs.lane import Run
from mainstem.model.errors import OffsetOutOfRange

# Looked at before others get their turn.
SEEN_AT_ONCE = 256


class Seen(NamedTuple):
    """A message as it was found. By the time it is looked at somebody may have taken it."""

    lane: QueueLane
    offset: int
    again: bool  # may have been delivered before
    batch: OpenBatch

    @property
    def at(self) -> int:
        return self.offset - self.batch.base_offset

    @property
    def is_ready(self) -> bool:
        """Still there, and nobody holds it."""
        return self.lane.state.is_ready(self.offset)

    @property
    def is_done(self) -> bool:
        return self.lane.state.is_acked(self.offset)

    def key(self) -> bytes | None:
        span = self.batch.spans[self.at]
        return None if span[5] < 0 else self.batch.data[span[4] : span[4] + span[5]]

    def body(self, max_bytes: int | None = None) -> bytes:
        span = self.batch.spans[self.at]
        size = max(span[7], 0) if max_bytes is None else min(max(span[7], 0), max_bytes)
        return self.batch.data[span[6] : span[6] + size]

    @property
    def body_bytes(self) -> int:
        return max(self.batch.spans[self.at][7], 0)


async def browse(store: Store, queue: Queue, held: bool = False) -> AsyncIterator[Seen]:
    """In the order in which they would be taken; those that are there at the start. `held`: those that
    consumers hold, instead."""
    todo: list[tuple[QueueLane, list[Run]]] = []
    for lane in reversed(queue.lanes):
        lane.grow()
        if held:
            todo.append((lane, [Run(first, stop, True) for first, stop in lane.state.held()]))
        else:
            todo.append((lane, lane.state.peek(lane.state.ready)))
    for lane, runs in todo:
        batches: list[OpenBatch] = []
        for first, stop, again in runs:
            at = first
            while at < stop:
                batch = _holding(batches, at)
                if batch is None:
                    batches = await _load(store, lane, at)
                    batch = _holding(batches, at)
                if batch is None:  # it was acknowledged and tidied away meanwhile
                    at = min((one.base_offset for one in batches if one.base_offset > at), default=stop)
                    continue
                for offset in range(at, min(stop, batch.stop)):
                    yield Seen(lane, offset, again, batch)
                    if offset % SEEN_AT_ONCE == 0:
                        await asyncio.sleep(0)
                at = batch.stop


async def find(store: Store, queue: Queue, lane_index: int, offset: int) -> Seen | None:
    """One message by its place; None if there is none (any more)."""
    if not 0 <= lane_index < len(queue.lanes):
        return None
    lane = queue.lanes[lane_index]
    lane.grow()
    if not 0 <= offset < lane.state.end or lane.state.is_acked(offset):
        return None
    batch = _holding(await _load(store, lane, offset), offset)
    return None if batch is None else Seen(lane, offset, offset < lane.state.delivered, batch)


def _holding(batches: list[OpenBatch], offset: int) -> OpenBatch | None:
    return next((one for one in batches if one.base_offset <= offset < one.stop), None)


async def _load(store: Store, lane: QueueLane, offset: int) -> list[OpenBatch]:
    """Apart from what the lane's own reader keeps: that is for those who take."""
    try:
        found: list[OpenBatch] = await store.in_reader(
            lane.reader.load, offset, lane.partition.high_watermark
        )
    except OffsetOutOfRange:
        return []
    return found
