"""Dead letters: messages that were refused, expired or had no room get a place elsewhere, with the reason.

The body stays where it is. A dead letter is a link with some headers on top (where it was published to, what
became of it), in one frame with the acknowledgement at its old place: it is never in both queues or in none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from mainstem.broker.queues.bodies import Body, find_body
from mainstem.broker.queues.deltas import Acked
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.namespace import Namespace
from mainstem.broker.queues.opened import OpenBatch
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.route import Route
from mainstem.broker.store import Section, Store
from mainstem.kernel.log.entries import Entry
from mainstem.model.errors import BodyGone, DiskFull, UnknownExchange
from mainstem.model.logs import Seldom, get_log
from mainstem.model.ports import Clock
from mainstem.model.record import Headers

events = get_log(__name__)

# Names of headers that a dead letter gets anew: of those it had before, the last ones count.
_REPLACED = frozenset({"route", "dead", "expires", "since"})
# On a full disk, or after an error, it is tried again so much later.
PATIENCE_S = 1.0
# Runs of messages that are buried before others have their turn.
AT_ONCE = 32

# Looked at, one by one, for being alike.
MOST_ALIKE = 512
# Of an exchange or key, in bytes: its size is written in one.
LONGEST_NAME = 255

# queue, reason, how often, first time in ms, exchange, routing keys, its time to live if that was its own
Death = list[Any]


class Grave(NamedTuple):
    """Messages first..stop of a lane, in flight until they lie elsewhere."""

    queue: Queue
    lane: QueueLane
    first: int
    stop: int
    reason: str


class Around(Protocol):
    """What is needed of the queues."""

    def find_namespace(self, name: str) -> Namespace | None: ...

    def headers_of(self, headers: Mapping[str, bytes | None]) -> Mapping[str, object] | None: ...

    def priority_of(self, headers: Mapping[str, bytes | None]) -> int: ...


class DeadLetters:
    """Buries in the order in which it was asked to."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        around: Around,
        flush_acks: Callable[[], None],
    ) -> None:
        self._store = store
        self._seldom = Seldom(events)
        self._flush_acks = flush_acks
        self._clock = clock
        self._around = around
        self._graves: deque[Grave] = deque()
        self._task: asyncio.Task[None] | None = None
        self._in_a_row = 0
        self._loaded: list[OpenBatch] = []
        self._loaded_of: QueueLane | None = None
        self.buried = 0

    def bury(self, grave: Grave) -> None:
        self._graves.append(grave)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._graves:
            grave = self._graves.popleft()
            try:
                await self._bury(grave)
            except DiskFull as error:
                self._seldom.warning("dead letters have to wait", queue=grave.queue.name, why=str(error))
                self._graves.appendleft(grave)
                await asyncio.sleep(PATIENCE_S)
            except Exception as error:  # a bug, or a disk that cannot be read: the others go on
                events.error("a dead letter could not be moved", queue=grave.queue.name, error=error)
                back = partial(grave.queue.put_back, grave.lane.index, grave.first, grave.stop)
                # Not at once: one that has expired would be here again in no time.
                asyncio.get_running_loop().call_later(PATIENCE_S, back)
        self._loaded, self._loaded_of = [], None

    async def _bury(self, grave: Grave) -> None:
        first = grave.first
        while first < grave.stop and self._is_there(grave.queue):
            self._in_a_row += 1
            if self._in_a_row % AT_ONCE == 0:
                await asyncio.sleep(0)  # others have their turn
            if grave.lane.state.is_acked(first):  # before the disk was full, and it was tried again
                first += 1
                continue
            batch = await self._opened(grave.lane, first)
            stop = min(grave.stop, batch.stop)
            first = await self._bury_alike(grave, batch, first, stop)

    def _is_there(self, queue: Queue) -> bool:
        """Not deleted meanwhile, with all that was in it."""
        namespace = self._around.find_namespace(queue.namespace)
        return namespace is not None and namespace.queues.get(queue.name) is queue

    async def _opened(self, lane: QueueLane, offset: int) -> OpenBatch:
        kept = lane.reader.kept(offset)
        if kept is None and self._loaded_of is lane:
            kept = _holding(self._loaded, offset)
        if kept is not None:
            return kept
        # Kept for those that follow: who rejects one often rejects others nearby, each by itself.
        self._loaded = await self._store.in_reader(lane.reader.load, offset, lane.partition.high_watermark)
        self._loaded_of = lane
        found = _holding(self._loaded, offset)
        if found is None:
            raise AssertionError(f"offset {offset} of {lane.partition} is not where the index says")
        return found

    async def _bury_alike(self, grave: Grave, batch: OpenBatch, first: int, stop: int) -> int:
        """Those from `first` on that lie in one body and go the same way; where the rest begins."""
        at = first - batch.base_offset
        headers = batch.headers(at)
        alike = self._fate(grave.queue, headers)
        until, stop = first + 1, min(stop, first + MOST_ALIKE)
        while until < stop and self._fate(grave.queue, batch.headers(until - batch.base_offset)) == alike:
            until += 1
        while True:
            body, upto = await find_body(self._store, grave.lane, first, until)
            try:
                self._commit(grave, first, upto, body, batch.came_ms(at, headers), headers)
            except BodyGone:  # a merge moved it just now
                await asyncio.sleep(0)
                continue
            return upto

    def _fate(self, queue: Queue, headers: dict[str, bytes | None]) -> tuple[object, ...]:
        """Messages that agree in this become the same kind of dead letter."""
        names = ("route", "dead", "keys", "expires", "since")
        way: object = None  # where they go may depend on what they say of themselves
        namespace = self._around.find_namespace(queue.namespace)
        exchange = queue.options.dead_letter_exchange
        if namespace is not None and exchange is not None:
            if namespace.router.picks_each(exchange):
                way = object()
            elif namespace.router.depends_on_headers(exchange):
                way = self._around.headers_of(headers)
        return (*(headers.get(name) for name in names), self._around.priority_of(headers), way)

    def _commit(
        self, grave: Grave, first: int, stop: int, body: Body, came_ms: int, headers: dict[str, bytes | None]
    ) -> None:
        queue, lane, options = grave.queue, grave.lane, grave.queue.options
        exchange, key = split_route(headers.get("route"))
        keys = keys_of(headers, key)
        now_ms = self._clock.now_ms()
        own = headers.get("expires")
        ttl = str(int.from_bytes(own, "big") - came_ms) if own else None
        history = _history(headers)
        deaths = died(history, [queue.name, grave.reason, 1, now_ms, exchange, keys, ttl])
        new_keys = keys if options.dead_letter_key is None else [options.dead_letter_key]
        # Without an exchange for them, because a policy has gone since, they are just done with.
        names = self._destinations(queue, new_keys, headers, deaths)
        overlay: Headers = (
            *(header for header in body.overlay if header[0] not in _REPLACED),
            *(_new_headers(queue, new_keys[0], deaths, now_ms) if names else ()),
        )
        count = stop - first
        priority = self._around.priority_of(headers)
        lanes = [found.lanes[min(priority, len(found.lanes) - 1)] for found in names]
        before = [target_lane.partition.next_offset for target_lane in lanes]
        entries: list[Entry] = [body.link_to(target_lane, count, overlay) for target_lane in lanes]
        acked = Acked(((lane.partition.id, ((first, stop),)),))
        self._flush_acks()  # what was acknowledged before may move the floor with this
        try:
            self._store.commit_together(
                [(Section.ACKS, acked)], entries, essential=True, then=lambda: lane.trim(floor)
            )
        except BaseException:
            for target_lane, next_offset in zip(lanes, before, strict=True):
                target_lane.partition.next_offset = next_offset
            raise
        lane.state.ack(first, stop)
        floor = lane.state.floor
        self.buried += count

    def refused(
        self, queue: Queue, exchange: str, keys: list[str], headers: dict[str, bytes | None]
    ) -> tuple[Route, Headers] | None:
        """As if it had been the oldest of a full queue: where it goes, and with which headers."""
        options, now_ms = queue.options, self._clock.now_ms()
        if options.dead_letter_exchange is None:
            return None
        deaths: list[Death] = [[queue.name, "maxlen", 1, now_ms, exchange, keys, None]]
        new_keys = keys if options.dead_letter_key is None else [options.dead_letter_key]
        queues = self._destinations(queue, new_keys, headers, deaths)
        if not queues:
            return None
        return Route(tuple(queues)), _new_headers(queue, new_keys[0], deaths, now_ms)

    def _destinations(
        self, queue: Queue, keys: list[str], headers: dict[str, bytes | None], deaths: list[Death]
    ) -> list[Queue]:
        """Queues that get it. One where it was before comes again only if somebody refused it on the way."""
        namespace = self._around.find_namespace(queue.namespace)
        if namespace is None:
            return []
        exchange = queue.options.dead_letter_exchange
        if exchange is None or len(exchange.encode()) > LONGEST_NAME or len(keys[0].encode()) > LONGEST_NAME:
            return []
        try:
            names = namespace.router.route(exchange, keys, self._around.headers_of(headers))
        except UnknownExchange:
            return []
        return [namespace.queues[name] for name in sorted(names) if not _is_cycle(name, deaths)]


def _new_headers(queue: Queue, key: str, deaths: list[Death], now_ms: int) -> Headers:
    return (
        ("route", join_route(queue.options.dead_letter_exchange or "", key)),
        ("dead", msgspec.msgpack.encode(deaths)),
        ("expires", None),
        ("since", now_ms.to_bytes(8, "big")),
    )


def _holding(batches: list[OpenBatch], offset: int) -> OpenBatch | None:
    return next((one for one in batches if one.base_offset <= offset < one.stop), None)


def _history(headers: dict[str, bytes | None]) -> list[Death]:
    before = headers.get("dead")
    return msgspec.msgpack.decode(before, type=list[Death]) if before else []


def died(history: Iterable[Death], death: Death) -> list[Death]:
    """One entry for each queue and reason, the latest first, with how often."""
    rest = []
    for entry in history:
        if entry[:2] == death[:2]:
            death = [*entry[:2], entry[2] + 1, *entry[3:]]
        else:
            rest.append(entry)
    return [death, *rest]


def _is_cycle(queue: str, deaths: list[Death]) -> bool:
    for index, entry in enumerate(deaths):
        if entry[0] == queue:
            return all(passed[1] != "rejected" for passed in deaths[: index + 1])
    return False


def keys_of(headers: Mapping[str, bytes | None], key: str) -> list[str]:
    """All keys that it was published with; the header `keys` is there if that was more than one."""
    several = headers.get("keys")
    return msgspec.msgpack.decode(several, type=list[str]) if several else [key]


def join_route(exchange: str, key: str) -> bytes:
    """Exchange and routing key, each behind a byte with its size."""
    names = exchange.encode(), key.encode()
    return b"".join(bytes((len(name),)) + name for name in names)


def split_route(route: bytes | None) -> tuple[str, str]:
    """Of the header `route`; a message of a client that knows no exchanges has none."""
    if not route:
        return "", ""
    size = route[0]
    key_at = size + 2
    return (
        route[1 : 1 + size].decode("utf-8", "replace"),
        route[key_at : key_at + route[size + 1]].decode("utf-8", "replace"),
    )
