"""A lane: one partition of a queue with the state of its delivery. A queue with priorities has several."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mainstem.broker.partition import Partition
from mainstem.broker.queues.deltas import Counts, LaneState
from mainstem.broker.queues.opened import LaneReader, Source
from mainstem.kernel.subs.lane import Lane

# A consumer that has no more than so many before it keeps up.
FEW = 64


class QueueLane:
    """`delivered_upto`: messages below may have been delivered, and the disk knows."""

    __slots__ = (
        "delivered_upto",
        "expiring",
        "index",
        "loading",
        "looked_upto",
        "marking",
        "partition",
        "reader",
        "state",
        "wanted",
    )

    def __init__(self, index: int, partition: Partition, source: Source) -> None:
        self.index = index
        self.partition = partition
        self.state = Lane()
        self.reader = LaneReader(source, partition)
        self.delivered_upto = 0
        self.expiring = False  # some messages may have a time to live of their own, and the disk knows
        self.wanted = False  # somebody consumes
        self.looked_upto = 0  # below, messages were there when nobody took them: they may be too old
        self.loading: asyncio.Future[None] | None = None  # batches, from the disk
        self.marking: asyncio.Future[None] | None = None  # a greater `delivered_upto`, on its way to the disk

    @property
    def is_followed(self) -> bool:
        """Whether what comes now will be taken soon."""
        return self.wanted and self.state.ready < FEW

    def grow(self) -> None:
        """To what is on disk."""
        if self.state.end < self.partition.high_watermark:
            self.state.grow(self.partition.high_watermark)

    # --- replay ----------------------------------------------------------------------------------

    def replay_acked(self, ranges: Iterable[tuple[int, int]]) -> None:
        for first, stop in ranges:
            if stop > self.state.end:
                self.state.grow(stop)
            self.state.ack(first, stop)
        self.trim(self.state.floor)

    def replay_failed(self, counts: Counts) -> None:
        for first, stop, attempts in counts:
            self.state.restore_failed(first, stop, attempts)

    def replay_state(self, saved: LaneState) -> None:
        self.delivered_upto = max(self.delivered_upto, saved.delivered_upto)
        self.expiring = self.expiring or saved.expiring
        one_by_one = ((offset, offset + 1, attempts) for offset, attempts in saved.failed_offsets)
        self.state.restore(saved.floor, saved.acked, self.delivered_upto, (*one_by_one, *saved.failed))
        self.trim(self.state.floor)

    def settle(self) -> None:
        """Replay is over: what may have been delivered before is told so when it is delivered again."""
        known = self.state
        self.state = Lane()
        self.state.restore(known.floor, list(known.acked()), self.delivered_upto, known.failed())
        self.grow()
        self.looked_upto = self.state.end

    def saved(self) -> LaneState | None:
        """None if it is as new."""
        state = self.state
        acked, failed = tuple(state.acked()), tuple(state.failed())
        if not (state.floor or acked or failed or self.delivered_upto or self.expiring):
            return None
        return LaneState(
            self.partition.id,
            state.floor,
            acked,
            self.delivered_upto,
            expiring=self.expiring,
            failed=failed,
        )

    def trim(self, floor: int) -> None:
        """Acknowledged on disk up to here: the log need not keep what lies below."""
        if floor > self.partition.log_start:
            self.partition.log_start = floor
