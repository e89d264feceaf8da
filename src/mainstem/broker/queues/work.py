"""A transaction of queues: publishes and acknowledgements that happen together or not at all.

Batches for topics may be part of it: their places are given at the end, in the same frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainstem.broker.partition import Partition
from mainstem.broker.queues.deltas import Acked, Held
from mainstem.broker.queues.gathering import Gathered, Gathering, as_entry
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.route import Route
from mainstem.broker.store import Section, Store
from mainstem.kernel.log.entries import BatchEntry, Entry, LinkEntry
from mainstem.kernel.log.journal import NewPlace
from mainstem.model.batch import place_batch, read_header, stamp_append_time


class Work:
    """Gathers until `commit`. Whoever drops it instead has changed nothing."""

    def __init__(
        self,
        store: Store,
        now_ms: Callable[[], int],
        flush: Callable[[], None],
        on_expiring: Callable[[tuple[QueueLane, ...]], None],
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._flush = flush
        self._on_expiring = on_expiring
        self._gathering = Gathering(now_ms)
        self._acks: dict[QueueLane, list[tuple[int, int]]] = {}
        self._batches: list[tuple[Partition, memoryview]] = []  # for topics, in their order

    def gather(self, route: Route, priority: int = 0) -> Gathered:
        return self._gathering.gather(route, priority)

    def append(self, partition: Partition, batch: memoryview) -> None:
        """To a topic's partition: a batch that `Publisher.check` gave. It stays as it is until the end."""
        self._batches.append((partition, batch))

    def ack(self, queue: Queue, lane: int, first: int, stop: int) -> None:
        self._acks.setdefault(queue.lanes[lane], []).append((first, stop))

    def commit(self, *, essential: bool = False) -> asyncio.Future[None]:
        """Done once all of it is on disk; acknowledged in memory at once. DiskFull changes nothing.

        On a full disk what only acknowledges goes on, and what is `essential`.
        """
        self._flush()  # earlier publishes and acks stay earlier
        groups = [group for group in self._gathering.groups if group.count]
        reached = {lane.partition: lane.partition.next_offset for group in groups for lane in group.lanes}
        reached |= {partition: partition.next_offset for partition, _ in self._batches}
        entries: list[Entry] = []
        later: list[tuple[Callable[[Held], None], Held]] = []
        for group in groups:
            if group.expiring:
                self._on_expiring(group.lanes)
            shift = len(entries) + (1 if self._acks else 0)
            if group.on_held is not None:
                later.append((group.on_held, group.held()))
            entries += [_shifted(entry, shift) for entry in group.entries()]
        entries += [as_entry(held) for _, held in later]
        now_ms = self._now_ms()
        entries += [_placed(partition, batch, now_ms) for partition, batch in self._batches]
        acked = Acked(tuple((lane.partition.id, tuple(ranges)) for lane, ranges in self._acks.items()))
        floors: list[tuple[QueueLane, int]] = []

        def on_disk() -> None:
            for lane, floor in floors:
                lane.trim(floor)
            for on_held, held in later:
                on_held(held)

        deltas = [(Section.ACKS, acked)] if self._acks else []
        try:
            done = self._store.commit_together(
                deltas, entries, essential=essential or not entries, then=on_disk
            )
        except BaseException:
            for partition, next_offset in reached.items():
                partition.next_offset = next_offset
            raise
        for lane, ranges in self._acks.items():
            for first, stop in ranges:
                lane.state.ack(first, stop)
            floors.append((lane, lane.state.floor))
        return done


def _shifted(entry: Entry, by: int) -> Entry:
    """A link names its body by the number of an entry in the whole frame."""
    if isinstance(entry, LinkEntry) and entry.body is not None:
        return LinkEntry(entry.partition, entry.link, entry.body + by)
    return entry


def _placed(partition: Partition, batch: memoryview, now_ms: int) -> BatchEntry:
    """At the end of a topic's partition. Its end moves."""
    header = read_header(batch)
    max_timestamp_ms = header.max_timestamp_ms
    if partition.topic.policy.append_time:
        stamp_append_time(batch, now_ms)
        max_timestamp_ms = now_ms
    base = partition.next_offset
    place_batch(batch, base, partition.leader_epoch)
    partition.next_offset += header.record_count
    place = NewPlace(partition.id, base, partition.next_offset - 1, max_timestamp_ms, len(batch))
    return BatchEntry(partition.id, batch, place)
