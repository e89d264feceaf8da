"""Messages held back until their time: written at once, published when they are due.

Such a message lies in a lane of a queue that nobody can name, with its time in the same frame. When it is
due it is routed, gets its places, and is done with at the old one, again in one frame: it is never lost, and
never there twice (firing.py). A lane for each order of time ahead, so that what waits for years does not
keep on disk what waited for a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from mainstem.broker.queues.dead_letters import keys_of, split_route
from mainstem.broker.queues.deltas import Acked, DelayDelta, Held, HeldMany
from mainstem.broker.queues.firing import Around, Firing, id_of, lane_and_offset
from mainstem.broker.queues.gathering import Gathered
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.opened import OpenBatch
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.route import Route
from mainstem.broker.store import Section, Store
from mainstem.kernel.timers.timers import Part, Timers
from mainstem.model.errors import DiskFull
from mainstem.model.logs import Seldom, get_log
from mainstem.model.ports import Clock

events = get_log(__name__)

SECOND_MS = 1000
# A lane for what is due within each of these times, and one for all that is later.
HORIZONS_MS = (60 * SECOND_MS, 3600 * SECOND_MS, 86_400 * SECOND_MS, 30 * 86_400 * SECOND_MS)
LANES = len(HORIZONS_MS) + 1
# No time is later than this: the year 9999. What is on disk already must not be able to fail.
LATEST_MS = 253_402_300_799_999
AT_ONCE = 1000
PATIENCE_S = 1.0
# One that could not be published is tried again so much later.
PUT_OFF_MS = 60 * SECOND_MS
MAX_SLEEP_S = 3600.0


class Pending(NamedTuple):
    """A message that waits, for people who look at them."""

    id: int
    due_ms: int
    namespace: str
    exchange: str
    keys: list[str]
    size: int


class Gathers(Protocol):
    """For this turn, or for a transaction."""

    def gather(self, route: Route, priority: int = 0) -> Gathered: ...


class DelayBook:
    """When what is due. A machine, see store.py; what is done with is known from the lanes' acks."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.overdue: list[int] = []  # taken from the timers, not published yet
        self._put_off: set[int] = set()  # back to the timers since the last dump was begun

    def apply(self, delta: DelayDelta) -> None:
        match delta:
            case Held(lane, base, due_ms):
                for offset, at_ms in enumerate(due_ms, base):
                    self.timers.add(min(at_ms, LATEST_MS), id_of(lane, offset))
            case HeldMany(ids, due_ms):
                self.timers.restore(Part(list(ids), [min(at_ms, LATEST_MS) for at_ms in due_ms]))

    def put_off(self, id: int, due_ms: int) -> None:
        """What is overdue goes back to the timers."""
        self.overdue.remove(id)
        self.timers.add(due_ms, id)
        self._put_off.add(id)

    def dump(self) -> Iterator[DelayDelta]:
        self._put_off = set()
        yield self._dump_overdue()
        for part in self.timers.dump():
            yield HeldMany(tuple(part.ids), tuple(part.due_ms))
        # Again: meanwhile some may have come from timers that the dump had not reached yet, or gone back to
        # some that it had passed.
        yield self._dump_overdue()

    def _dump_overdue(self) -> HeldMany:
        """A snapshot without them would lose them: the journal before it is not read again."""
        ids = (*self.overdue, *self._put_off)
        return HeldMany(ids, (0,) * len(ids))


class Delays:
    def __init__(self, store: Store, book: DelayBook, clock: Clock, around: Around) -> None:
        self._store = store
        self._seldom = Seldom(events)
        self._book = book
        self._timers = book.timers
        self._clock = clock
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._queue: Queue | None = None
        self._route: Route | None = None
        self._firing: Firing | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def use(self, queue: Queue) -> None:
        """Where they lie. What was done with before the start is not due again."""
        self._queue = queue
        self._route = Route((queue,))
        self._firing = Firing(self._store, self._clock, self._around, queue)
        for part in list(self._timers.dump()):
            for id in part.ids:
                lane, offset = lane_and_offset(id)
                if queue.lanes[lane].state.is_acked(offset):
                    self._timers.cancel(id)
        self._set_alarm()

    def __len__(self) -> int:
        return len(self._timers) + len(self._book.overdue)

    def gather(self, gatherer: Gathers, due_ms: int) -> Gathered:
        """Where to put one message that is due at a time."""
        if self._route is None:
            raise AssertionError("delays are used before they are there")
        due_ms = min(due_ms, LATEST_MS)
        ahead_ms = due_ms - self._clock.now_ms()
        lane = sum(ahead_ms > horizon_ms for horizon_ms in HORIZONS_MS)
        gathered = gatherer.gather(self._route, lane)
        gathered.on_held = self._held
        gathered.due_ms.append(due_ms)
        return gathered

    def _held(self, held: Held) -> None:
        """They are on disk."""
        self._book.apply(held)
        self._set_alarm()

    # --- when they are due -----------------------------------------------------------------------

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        next_ms = self._timers.next_due_ms()
        if next_ms is not None and (self._task is None or self._task.done()):
            wait_s = min(max(next_ms - self._clock.now_ms(), 0) / 1000, MAX_SLEEP_S)
            self._alarm = self._loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        self._alarm = None
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._publish_due())

    async def _publish_due(self) -> None:
        try:
            while not await self._publish_some():
                pass
        finally:
            self._task = None
            self._set_alarm()

    async def _publish_some(self) -> bool:
        """Until nothing is due (then True), or something is in the way."""
        assert self._firing is not None
        overdue = self._book.overdue
        try:
            while overdue or (ids := self._timers.due(self._clock.now_ms(), AT_ONCE)):
                if not overdue:
                    overdue[:] = ids
                await self._firing.publish(overdue)
        except DiskFull as error:
            self._seldom.warning("messages that are due have to wait", why=str(error))
            await asyncio.sleep(PATIENCE_S)
        except Exception as error:  # a bug with one message must not keep all others
            events.error("a delayed message could not be published", error=error)
            if overdue:
                self._book.put_off(overdue[0], self._clock.now_ms() + PUT_OFF_MS)
        else:
            return True
        return False

    async def _opened(self, lane: QueueLane, offset: int) -> OpenBatch:
        kept = lane.reader.kept(offset)
        if kept is not None:
            return kept
        upto = lane.partition.high_watermark
        loaded: list[OpenBatch] = await self._store.in_reader(lane.reader.load, offset, upto)
        lane.reader.use(loaded)
        return next(one for one in loaded if one.base_offset <= offset < one.stop)

    # --- for people ------------------------------------------------------------------------------

    async def pending(self, limit: int, namespace: str | None = None) -> list[Pending]:
        """Those that are due next, of one namespace or of all."""
        found: list[Pending] = []
        page = self._timers.pending(min(limit, AT_ONCE))
        while page and len(found) < limit:
            some = await self._described(page)
            found += [one for one in some if namespace in (None, one.namespace)]
            page = self._timers.pending(min(limit, AT_ONCE), page[-1])
        return found[:limit]

    async def _described(self, page: list[tuple[int, int]]) -> list[Pending]:
        assert self._queue is not None
        found: list[Pending] = []
        for due_ms, id in page:
            lane, offset = lane_and_offset(id)
            batch = await self._opened(self._queue.lanes[lane], offset)
            index = offset - batch.base_offset
            headers = batch.headers(index)
            exchange, key = split_route(headers.get("route"))
            space = (headers.get("space") or b"/").decode()
            size = max(batch.spans[index][7], 0)
            found.append(Pending(id, due_ms, space, exchange, keys_of(headers, key), size))
        return found

    async def cancel(self, id: int) -> bool:
        """Never publish it; False if it is not pending (any more)."""
        if self._queue is None or id not in self._timers:
            return False
        lane_index, offset = lane_and_offset(id)
        lane = self._queue.lanes[lane_index]
        acked = Acked(((lane.partition.id, ((offset, offset + 1),)),))
        # Journalled before it is forgotten: on a full disk it stays as it was.
        done = self._store.commit(
            Section.ACKS, acked, essential=True, frees_space=True, then=lambda: lane.trim(floor)
        )
        self._timers.cancel(id)
        lane.grow()
        lane.state.ack(offset, offset + 1)
        floor = lane.state.floor
        await done
        return True

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
