"""Messages that waited until now are published: they get their places, and are done with where they waited.

Those that are due together lie scattered over old batches. A short one is copied, with as many others as are
due, as if it were published now: a link for each would make its readers open a batch for one message. A long
one stays where it lies and gets links. Either way that is one frame with the end of its wait.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from mainstem.broker.queues.bodies import Body, find_body
from mainstem.broker.queues.dead_letters import Around as NamespacesAround
from mainstem.broker.queues.dead_letters import keys_of, split_route
from mainstem.broker.queues.deltas import Acked
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.namespace import Namespace
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.route import Route
from mainstem.broker.queues.work import Work
from mainstem.broker.store import Section, Store
from mainstem.kernel.log.entries import Entry
from mainstem.kernel.log.layout import LINK_BYTES
from mainstem.model import record_loop
from mainstem.model.errors import BodyGone, CorruptBatch, CorruptFile, UnknownExchange
from mainstem.model.ports import Clock
from mainstem.model.record import Headers
from mainstem.model.record_loop import Span
from mainstem.model.records import open_records

# A message up to this size is copied: a link takes more than a hundred bytes itself, and its readers' time.
COPIED_BYTES = 4096
# A frame is begun anew beyond this, long before it is as large as one may be.
FRAME_BYTES = 4 << 20
ACK_BYTES = 32
# In the id of a message that waits: the number of its lane in the lowest bits, its offset above.
_LANE_BITS = 3

Copied = tuple[bytes | None, bytes | None, bytes]  # key, value, headers
Routes = dict[tuple[bytes | None, ...], Route | None]


def id_of(lane: int, offset: int) -> int:
    return offset << _LANE_BITS | lane


def lane_and_offset(id: int) -> tuple[int, int]:
    return id & (1 << _LANE_BITS) - 1, id >> _LANE_BITS


@dataclass(slots=True)
class Due:
    """A message as it was read; one that could not be read says why."""

    lane: QueueLane
    offset: int
    headers: dict[str, bytes | None] = field(default_factory=dict)
    copied: Copied | None = None  # None if it is long
    error: Exception | None = None


class Around(NamespacesAround, Protocol):
    """What is needed of the queues."""

    def route(
        self,
        namespace: Namespace,
        exchange: str,
        keys: tuple[str, ...],
        headers: Mapping[str, object] | None = None,
    ) -> Route: ...

    def watch_expiry(self, lanes: tuple[QueueLane, ...]) -> None: ...

    def transaction(self) -> Work: ...


class Firing:
    def __init__(self, store: Store, clock: Clock, around: Around, queue: Queue) -> None:
        self._store = store
        self._clock = clock
        self._around = around
        self._queue = queue  # in which they wait

    async def publish(self, overdue: list[int]) -> None:
        """All of them, in their order; each leaves the list when it is handed to the journal."""
        overdue[:] = [id for id in overdue if not self._is_done(id)]
        found: list[Due] = await self._store.in_reader(self._read, list(overdue))
        at = 0
        while at < len(found):
            if found[at].copied is None:
                await self._publish_long(found[at])
                count, on_disk = 1, None
            else:
                count, on_disk = self._publish_copies(found, at)
            del overdue[:count]
            at += count
            if on_disk is not None:
                # However many are due, those that wait for the disk must not fill the memory.
                await asyncio.shield(on_disk)

    def _is_done(self, id: int) -> bool:
        lane, offset = lane_and_offset(id)
        return self._queue.lanes[lane].state.is_acked(offset)

    # --- reading ---------------------------------------------------------------------------------

    def _read(self, ids: list[int]) -> list[Due]:
        """What has these ids, in their order. May wait for the disk, and run in any thread."""
        places = [lane_and_offset(id) for id in ids]
        ordered = sorted(set(places))
        found: dict[tuple[int, int], Due] = {}
        while len(found) < len(ordered):
            place = ordered[len(found)]
            lane = self._queue.lanes[place[0]]
            try:
                found |= self._read_batch(lane, ordered[len(found) :])
            except (CorruptBatch, CorruptFile, IndexError) as error:  # the last: there is nothing there
                found[place] = Due(lane, place[1], error=error)
        return [found[place] for place in places]

    def _read_batch(self, lane: QueueLane, ordered: list[tuple[int, int]]) -> dict[tuple[int, int], Due]:
        """The first of them, and those that lie in one batch with it."""
        log, partition = self._store.log, lane.partition
        batch = log.read(partition.id, ordered[0][1], 1, partition.high_watermark, wait=True)[0]
        header, data = open_records(batch)
        last = (lane.index, header.base_offset + header.last_offset_delta)
        places = ordered[: bisect_right(ordered, last)]
        spans = record_loop.pick(data, [offset - header.base_offset for _, offset in places])
        return {place: _due(lane, place[1], data, span) for place, span in zip(places, spans, strict=True)}

    # --- publishing ------------------------------------------------------------------------------

    def _publish_copies(self, found: list[Due], at: int) -> tuple[int, asyncio.Future[None]]:
        """Of those from `at` on as many as fit into a frame; how many, and when they are on disk."""
        work = self._around.transaction()
        routes: Routes = {}
        count = size = 0
        for due in islice(found, at, None):
            if due.copied is None or size > FRAME_BYTES:
                break
            try:
                size += self._copy(work, due, due.copied, routes)
            except Exception:
                if not count:
                    raise
                break  # those before it go first: then it is clear which one it is
            count += 1
        # Or what waits would keep a full disk full: nobody could take it.
        return count, work.commit(essential=True)

    def _copy(self, work: Work, due: Due, copied: Copied, routes: Routes) -> int:
        """What it adds to the frame, at most. If it fails, nothing was added."""
        headers = due.headers
        route = self._route_of(headers, routes)
        priority = self._around.priority_of(headers)
        due.lane.grow()
        work.ack(self._queue, due.lane.index, due.offset, due.offset + 1)
        if route is None or not route.queues:
            return ACK_BYTES
        gathered = work.gather(route, priority)
        key, value, coded = copied
        before = len(gathered.out)
        record_loop.append_record(gathered.out, 0, gathered.count, key, value, coded)
        gathered.added(1)
        if headers.get("expires") is not None:
            gathered.expiring = True
        # A place for each destination, as if it were the only message for them.
        return ACK_BYTES + len(gathered.out) - before + (LINK_BYTES + 64) * len(gathered.lanes)

    async def _publish_long(self, due: Due) -> None:
        if due.error is not None:
            raise due.error
        lane, offset = due.lane, due.offset
        while not lane.state.is_acked(offset):
            body, _ = await find_body(self._store, lane, offset, offset + 1)
            try:
                self._link(due, body)
            except BodyGone:  # a merge moved it just now
                await asyncio.sleep(0)

    def _link(self, due: Due, body: Body) -> None:
        """Places for it where it goes, and none any more here, in one frame."""
        lane, headers = due.lane, due.headers
        route = self._route_of(headers, {})
        lanes = route.lanes(self._around.priority_of(headers)) if route else ()
        before = {to: to.partition.next_offset for to in lanes}
        if headers.get("expires") is not None:
            self._around.watch_expiry(tuple(before))
        since: Headers = (*body.overlay, ("since", self._clock.now_ms().to_bytes(8, "big")))
        entries: list[Entry] = [body.link_to(to, 1, since) for to in before]
        acked = Acked(((lane.partition.id, ((due.offset, due.offset + 1),)),))
        try:
            self._store.commit_together(
                [(Section.ACKS, acked)], entries, essential=True, then=lambda: lane.trim(floor)
            )
        except BaseException:
            for to, next_offset in before.items():
                to.partition.next_offset = next_offset
            raise
        lane.grow()
        lane.state.ack(due.offset, due.offset + 1)
        floor = lane.state.floor

    def _route_of(self, headers: dict[str, bytes | None], known: Routes) -> Route | None:
        """None if its namespace or exchange has gone meanwhile. `known`: of this turn."""
        names = (headers.get("space"), headers.get("route"), headers.get("keys"))
        if names in known:
            return known[names]
        namespace = self._around.find_namespace((names[0] or b"/").decode())
        if namespace is None:
            return None
        exchange, key = split_route(names[1])
        by_headers = namespace.router.depends_on_headers(exchange)
        meant = self._around.headers_of(headers) if by_headers else None
        try:
            route = self._around.route(namespace, exchange, tuple(keys_of(headers, key)), meant)
        except UnknownExchange:
            return None
        if not by_headers:
            known[names] = route
        return route


def _due(lane: QueueLane, offset: int, data: bytes, span: Span) -> Due:
    """A copy: the batch is not kept for one message."""
    _start, stop, _time, _delta, key_at, key_size, value_at, value_size, headers_at = span
    due = Due(lane, offset, dict(record_loop.decode_headers(data, headers_at, stop)))
    if stop - key_at <= COPIED_BYTES:
        key = data[key_at : key_at + key_size] if key_size >= 0 else None
        value = data[value_at : value_at + value_size] if value_size >= 0 else None
        due.copied = key, value, data[headers_at:stop]
    return due
