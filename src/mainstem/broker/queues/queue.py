"""A queue: messages in lanes, and those who take them.

Messages are looked at in runs, a batch at a time: which are next is the lanes' matter (kernel/subs), who
gets them is decided by shares, and what they are is read from the log. Whatever has to wait for the disk
ends the turn; the queue is looked at again when it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mainstem.broker.partition import Partition
from mainstem.broker.queues.deltas import QueueMade
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.opened import OpenBatch
from mainstem.broker.queues.shelf import Shelf
from mainstem.broker.queues.spec import QueueOptions, QueueSpec
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.places import WouldBlock
from mainstem.kernel.subs.attempts import MOST_COUNTED
from mainstem.kernel.subs.sharing import Sharing
from mainstem.model.errors import QueueInUse
from mainstem.model.logs import get_log

events = get_log(__name__)

# Handed to one consumer before the next one's turn, and in one turn altogether.
MESSAGES_AT_ONCE = 1024
BYTES_AT_ONCE = 256 << 10
BYTES_PER_TURN = 2 << 20
# Expired messages are dropped so many at a time; then it is the others' turn.
EXPIRED_AT_ONCE = 8192
# After something failed, it is tried again so much later.
PATIENCE_S = 1.0


@dataclass(slots=True)
class Found:
    """Messages with consecutive offsets, from `first` on, in one opened batch, from its record `at` on."""

    lane: int
    first: int
    count: int
    again: bool  # may have been delivered before
    batch: OpenBatch
    at: int


class Taker(Protocol):
    """Who takes messages from a queue; a front has one for each of its consumers."""

    priority: int

    def __hash__(self) -> int: ...

    def credit(self) -> int:
        """How many it may take now; -1: as many as there are."""

    def take(self, queue: Queue, found: list[Found]) -> None: ...

    def cancelled(self, why: str) -> None:
        """The queue is gone, or its consumer was sent away."""


class Host(Protocol):
    """What a queue needs of those around it."""

    log: Log
    shelf: Shelf

    def now_ms(self) -> int: ...

    def soon(self, queue: Queue) -> None:
        """Pump it after this turn."""

    def load(self, lane: QueueLane, offset: int) -> asyncio.Future[None]:
        """Have its batches from an offset on read from disk."""

    def mark(self, lane: QueueLane, offset: int) -> asyncio.Future[None]:
        """Note on disk that messages up to an offset are being delivered."""

    def acked(self, lane: QueueLane, first: int, stop: int) -> None: ...

    def failed(self, lane: QueueLane, first: int, stop: int) -> None:
        """The lane counts another delivery of these that failed."""

    def bury(self, queue: Queue, lane: QueueLane, first: int, stop: int, reason: str) -> None:
        """Dead letters: in flight until they lie elsewhere, and then acknowledged."""

    def unused(self, queue: Queue) -> None:
        """Its last consumer has left."""

    def used(self, queue: Queue) -> None: ...

    def a_turn(self) -> asyncio.Future[None]:
        """Done when others had theirs."""

    def care_for(self, queue: Queue) -> None:
        """It was given out what could be: what is too much or too old goes."""


class Waits(Exception):
    """Something has to come from the disk, or get there, first."""

    def __init__(self, until: asyncio.Future[None]) -> None:
        self.until = until


class Queue:
    __slots__ = (
        "_closed",
        "_dropped",
        "_exclusive",
        "_host",
        "_planned",
        "expiry",
        "id",
        "lanes",
        "made",
        "may_expire",
        "namespace",
        "options",
        "owner",
        "sharing",
        "spec",
        "unused_timer",
    )

    def __init__(self, made: QueueMade, partitions: list[Partition], host: Host) -> None:
        self.made = made
        self.spec: QueueSpec = made.spec
        self.options = made.spec.options  # with what a policy adds to them
        self.id = made.partition_ids[0]
        self.namespace = made.namespace
        self._host = host
        self.lanes = tuple(QueueLane(index, partition, host) for index, partition in enumerate(partitions))
        self.sharing: Sharing[Taker] = Sharing("failover" if self.spec.options.single_active else "shared")
        self.owner: object = None  # whom an exclusive one belongs to
        self._exclusive: Taker | None = None
        self._planned = False
        self._closed = False
        self._dropped = 0  # because they had expired
        self.may_expire = self.options.message_ttl_ms is not None
        self.expiry: asyncio.TimerHandle | None = None
        self.unused_timer: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def ready(self) -> int:
        if len(self.lanes) == 1:
            lane = self.lanes[0]
            lane.grow()
            return lane.state.ready
        return sum(lane.state.ready for lane in self._grown())

    @property
    def unacked(self) -> int:
        return sum(lane.state.in_flight for lane in self.lanes)

    @property
    def consumers(self) -> int:
        return len(self.sharing)

    @property
    def needs_care(self) -> bool:
        """Messages may have to go though nobody took them."""
        return self.may_expire or self.is_limited

    @property
    def is_limited(self) -> bool:
        return self.options.max_length is not None or self.options.max_bytes is not None

    def use_options(self, options: QueueOptions) -> None:
        """From now on. How many lanes it has, and of which kind it is, was decided when it was made."""
        self.options = options
        if options.message_ttl_ms is not None:
            self.may_expire = True

    def _grown(self) -> Iterator[QueueLane]:
        """Lanes, the most urgent first."""
        for lane in reversed(self.lanes):
            lane.grow()
            yield lane

    # --- those who take --------------------------------------------------------------------------

    def subscribe(self, taker: Taker, exclusive: bool = False) -> None:
        alone = exclusive and (len(self.sharing) or self.options.single_active)
        if self._exclusive is not None or alone:
            raise QueueInUse(f"queue {self.name!r} has a consumer that is alone, or wants to be")
        if exclusive:
            self._exclusive = taker
        self.watch()
        self.sharing.join(taker, taker.priority)
        for lane in self.lanes:
            lane.wanted = True
        self._host.used(self)
        self.wake()

    def unsubscribe(self, taker: Taker) -> None:
        if self._exclusive is taker:
            self._exclusive = None
        self.sharing.leave(taker)
        self.wake()
        if not len(self.sharing):
            for lane in self.lanes:
                lane.wanted = False
                lane.reader.forget()
            self._host.unused(self)

    def watch(self) -> None:
        """Look at it whenever something has come to it."""
        for lane in self.lanes:
            lane.partition.wait(self.wake)

    def wake(self) -> None:
        if not self._planned:
            self._planned = True
            self._host.soon(self)

    def pump(self) -> None:
        """Give out what may be given out."""
        self._planned = False
        if self._closed:
            return
        try:
            if not self._give_out():
                self.wake()
        except Waits as wait:
            wait.until.add_done_callback(self.look_again)
            return
        if self.needs_care:
            for lane in self.lanes:
                lane.looked_upto = lane.state.end
            self._host.care_for(self)

    def _give_out(self) -> bool:
        """False if there is more for another turn. Raises Waits."""
        left = BYTES_PER_TURN
        while len(self.sharing):
            ready = self.ready
            if not ready:
                for lane in self.lanes:
                    lane.reader.forget_below(lane.state.end)
                break
            shares = self.sharing.split(ready, _credit)
            if not shares:
                break
            for taker, count in shares:
                left -= self._feed(taker, min(count, MESSAGES_AT_ONCE))
            if left <= 0:
                return False
        return True

    def look_again(self, done: asyncio.Future[None]) -> None:
        """What had to wait for the disk need not wait any more; after a failure it is tried again."""
        if not done.cancelled() and done.exception() is None:
            self.wake()
        else:
            self.wake_later()

    def wake_later(self) -> None:
        if not self._closed:
            asyncio.get_running_loop().call_later(PATIENCE_S, self.wake)

    def _feed(self, taker: Taker, count: int) -> int:
        """Hand out so many; what was found before something has to wait is handed out all the same."""
        found: list[Found] = []
        size = 0
        try:
            while count > 0 and size < BYTES_AT_ONCE:
                one = self._next(count)
                if one is None:
                    break
                found.append(one)
                count -= one.count
                size += one.batch.bytes_of(one.at, one.at + one.count)
        finally:
            if found:
                taker.take(self, found)
        return size

    def _next(self, count: int) -> Found | None:
        """The next messages, in flight from now on. Raises Waits."""
        dropped_before = self._dropped
        for lane in self._grown():
            while lane.state.ready:
                found = self._take(lane, count)
                if found is not None:
                    return found
                if self._dropped - dropped_before > EXPIRED_AT_ONCE:
                    raise Waits(self._host.a_turn())
            lane.reader.forget_below(lane.state.end)
        return None

    def _take(self, lane: QueueLane, count: int) -> Found | None:
        """None if those in front had expired."""
        first, stop, _ = lane.state.peek(count)[0]
        batch = self.opened(lane, first)
        at = first - batch.base_offset
        stop = min(stop, batch.stop)
        live = self._live(lane, batch, at, stop - first)
        if not live:
            return None
        stop = first + live
        if stop > lane.delivered_upto and self.spec.outlives_restart:
            raise Waits(self._host.mark(lane, stop))
        run = lane.state.take(live)[0]
        return Found(lane.index, first, live, run.again, batch, at)

    def opened(self, lane: QueueLane, offset: int) -> OpenBatch:
        """The batch that holds an offset. Raises Waits."""
        try:
            return lane.reader.at(offset)
        except WouldBlock:
            raise Waits(self._host.load(lane, offset)) from None

    # --- expiry ----------------------------------------------------------------------------------

    def _live(self, lane: QueueLane, batch: OpenBatch, at: int, count: int) -> int:
        """How many have not expired; if the first ones have, they are buried and it is 0.

        What has just come goes to who waits for it, however short its time.
        """
        ttl_ms = self.options.message_ttl_ms
        if (ttl_ms is None and not batch.expiring) or batch.base_offset + at >= lane.looked_upto:
            return count
        now_ms = self._host.now_ms()
        expired = 0
        for index in range(at, at + count):
            until_ms = expires_ms(batch, index, ttl_ms)
            if until_ms is None or until_ms > now_ms:
                if not expired:
                    continue
                break
            if index > at + expired:
                return index - at  # live ones first: those behind are looked at when it is their turn
            expired += 1
        if expired:
            first = batch.base_offset + at
            lane.state.take(expired)
            self._dropped += expired
            self.discard(lane, first, first + expired, "expired")
            return 0
        return count

    def drop_expired(self) -> int | None:
        """Bury what has expired at the front; when the next one will, in ms since 1970. Raises Waits."""
        soonest: int | None = None
        dropped_before = self._dropped
        for lane in self._grown():
            while lane.state.ready:
                if self._dropped - dropped_before > EXPIRED_AT_ONCE:
                    raise Waits(self._host.a_turn())
                first = lane.state.peek(1)[0].first
                batch = self.opened(lane, first)
                at = first - batch.base_offset
                stop = min(lane.state.peek(len(batch.spans))[0].stop, batch.stop)
                if self._live(lane, batch, at, stop - first):
                    until_ms = expires_ms(batch, at, self.options.message_ttl_ms)
                    if until_ms is not None and (soonest is None or until_ms < soonest):
                        soonest = until_ms
                    break
        return soonest

    # --- what becomes of messages ----------------------------------------------------------------

    async def get(self) -> Found | None:
        """One message, in flight from now on; None if there is none."""
        self._host.used(self)
        for lane in self._grown():
            lane.looked_upto = lane.state.end  # nobody waited for what is there
        while True:
            try:
                return self._next(1)
            except Waits as wait:
                await asyncio.shield(wait.until)

    def ack(self, lane: int, first: int, stop: int) -> None:
        held = self.lanes[lane]
        if held.state.ack(first, stop):
            self._host.acked(held, first, stop)

    def give_back(self, lane: int, first: int, stop: int, failed: bool = True) -> None:
        """By who had them, to their old places, ahead of newer ones.

        Those whose delivery failed too often are buried. Without having failed they may come back for ever.
        """
        held = self.lanes[lane]
        limit = self.options.delivery_limit
        if failed and limit is not None:
            for run_first, run_stop, attempts in held.state.attempt_runs(first, stop):
                if attempts >= min(limit, MOST_COUNTED):
                    self.discard(held, run_first, run_stop, "delivery_limit")
                else:
                    self._count_failed(held, run_first, run_stop)
        elif failed and self.options.kind == "quorum":
            self._count_failed(held, first, stop)
        else:  # who has no limit, and does not tell, need not count
            held.state.give_back(first, stop, failed=False, released=self.options.kind == "quorum")
        self.wake()

    def put_back(self, lane: int, first: int, stop: int) -> None:
        """As if they had not been taken: nobody got them."""
        self.lanes[lane].state.give_back(first, stop, failed=False)
        self.wake()

    def _count_failed(self, lane: QueueLane, first: int, stop: int) -> None:
        if lane.state.give_back(first, stop) and self.spec.outlives_restart:
            self._host.failed(lane, first, stop)

    def reject(self, lane: int, first: int, stop: int) -> None:
        self.discard(self.lanes[lane], first, stop, "rejected")

    def discard(self, lane: QueueLane, first: int, stop: int, reason: str) -> None:
        """Messages in flight that will not be delivered again: to the dead letters, if there are any."""
        if self.options.dead_letter_exchange is None:
            if lane.state.ack(first, stop):
                self._host.acked(lane, first, stop)
        else:
            self._host.bury(self, lane, first, stop, reason)

    def drop_head(self, count: int) -> None:
        """The oldest of the least urgent go, because there are too many."""
        for lane in self.lanes:
            lane.grow()
            runs = lane.state.take(min(count, lane.state.ready))
            for run in runs:
                self.discard(lane, run.first, run.stop, "maxlen")
                count -= run.stop - run.first
            if count <= 0:
                return

    def purge(self) -> int:
        """All that nobody holds is done with; how many."""
        purged = 0
        for lane in self._grown():
            for run in lane.state.take(lane.state.ready):
                purged += lane.state.ack(run.first, run.stop)
                self._host.acked(lane, run.first, run.stop)
        return purged

    def close(self, why: str) -> None:
        """It is gone: whoever takes from it is told."""
        self._closed = True
        for lane in self.lanes:
            lane.partition.stop_waiting(self.wake)
            lane.reader.forget()
        for timer in (self.expiry, self.unused_timer):
            if timer is not None:
                timer.cancel()
        for taker in list(self.sharing):
            self.sharing.leave(taker)
            taker.cancelled(why)


def _credit(taker: Taker) -> int:
    return taker.credit()


def expires_ms(batch: OpenBatch, index: int, ttl_ms: int | None) -> int | None:
    """When a message goes by itself: by its own time to live or its queue's, whichever is first."""
    if not batch.expiring:
        return None if ttl_ms is None else batch.base_ms + batch.spans[index][2] + ttl_ms
    headers = batch.headers(index)
    own = headers.get("expires")
    until_ms = int.from_bytes(own, "big") if own else None
    if ttl_ms is not None:
        by_queue_ms = batch.came_ms(index, headers) + ttl_ms
        until_ms = by_queue_ms if until_ms is None else min(until_ms, by_queue_ms)
    return until_ms
