"""Publishes of one turn, gathered by where they go: many messages, one batch, one write.

Messages with the same destinations share a body. With one destination it is a batch of that lane; with
several it is a batch of the first one and links from the others, in one frame that is written whole or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from mainstem.broker.queues.deltas import Held
from mainstem.broker.queues.lanes import QueueLane
from mainstem.broker.queues.opened import MOST_WRITTEN_BYTES, open_written
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.route import Route
from mainstem.broker.store import Section
from mainstem.kernel.log.entries import BatchEntry, DeltaEntry, Entry, LinkEntry
from mainstem.kernel.log.journal import NewPlace
from mainstem.kernel.log.layout import LINK_BYTES, Link
from mainstem.kernel.log.log import Log
from mainstem.model.batch import BATCH_OVERHEAD
from mainstem.model.errors import DiskFull, MainstemError
from mainstem.model.logs import get_log
from mainstem.model.records import finish_batch

events = get_log(__name__)

# A batch that is larger is ended, and another one begun: it is read as a whole.
FULL_BYTES = 512 << 10
FULL_COUNT = 8192
# So much may wait for the disk before nobody may publish to queues.
MOST_WAITING_BYTES = 64 << 20


class Gathered:
    """Messages of this turn for one set of lanes. Who adds records to `out` says so with `added`."""

    __slots__ = ("count", "due_ms", "expiring", "lanes", "now_ms", "on_held", "out")

    def __init__(self, lanes: tuple[QueueLane, ...], now_ms: int) -> None:
        self.lanes = lanes
        self.now_ms = now_ms  # the time of all of them
        self.out = bytearray(BATCH_OVERHEAD)
        self.count = 0
        self.expiring = False  # some have a time to live of their own
        self.due_ms: list[int] = []  # of messages that are held back, one for each
        self.on_held: Callable[[Held], None] | None = None

    @property
    def full(self) -> bool:
        return len(self.out) >= FULL_BYTES or self.count >= FULL_COUNT

    @property
    def frame_bytes(self) -> int:
        return len(self.out) + (LINK_BYTES + 32) * len(self.lanes)

    def added(self, count: int) -> None:
        self.count += count

    def entries(self) -> list[Entry]:
        """As parts of one frame: a batch, and links to it. The lanes' next offsets move on."""
        first, *others = self.lanes
        batch, base = self._placed(first)
        place = NewPlace(first.partition.id, base, base + self.count - 1, self.now_ms, len(batch))
        entries: list[Entry] = [BatchEntry(first.partition.id, batch, place)]
        for lane in others:
            partition = lane.partition
            link = Link(
                partition.next_offset,
                0,
                0,
                len(batch),
                0,
                self.count,
                self.now_ms,
                leader_epoch=partition.leader_epoch,
            )
            partition.next_offset += self.count
            entries.append(LinkEntry(partition.id, link, body=0))
        return entries

    def _placed(self, lane: QueueLane) -> tuple[bytearray, int]:
        partition = lane.partition
        base = partition.next_offset
        partition.next_offset += self.count
        return finish_batch(self.out, base, partition.leader_epoch, self.count, self.now_ms), base

    def append_to(self, log: Log) -> None:
        if self.on_held is not None:
            self._hold(log, self.on_held)
            return
        bases = [lane.partition.next_offset for lane in self.lanes]
        if len(self.lanes) == 1:
            batch, base = self._placed(self.lanes[0])
            partition_id, last = self.lanes[0].partition.id, base + self.count - 1
            log.append_batch(partition_id, batch, base, last, self.now_ms, None)
        else:
            log.append_atomic(self.entries(), None)
        if len(self.out) <= MOST_WRITTEN_BYTES:
            self._note_written(bases)

    def _note_written(self, bases: list[int]) -> None:
        """Consumers that wait for it need not read it: all of them share what is opened once."""
        followed = [(lane, base) for lane, base in zip(self.lanes, bases, strict=True) if lane.is_followed]
        if followed:
            opened = open_written(self.out, 0, self.count, self.now_ms)
            for lane, base in followed:
                lane.reader.note_written(opened.at_place(base, len(followed)))

    def _hold(self, log: Log, on_held: Callable[[Held], None]) -> None:
        """The messages and their times in one frame."""
        held = self.held()
        log.append_atomic([*self.entries(), as_entry(held)], lambda _: on_held(held))

    def held(self) -> Held:
        """The times of messages that are held back; to ask before they get their places."""
        lane = self.lanes[0]
        return Held(lane.index, lane.partition.next_offset, tuple(self.due_ms))


def as_entry(held: Held) -> DeltaEntry:
    return DeltaEntry(Section.DELAYS, msgspec.msgpack.encode(held))


class Gathering:
    """Groups of messages in the order in which they were begun.

    A lane's messages keep their order: a group is added to only while it is the last one of all its lanes.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._open: dict[tuple[Route, int], Gathered] = {}
        self.groups: list[Gathered] = []
        self._last: dict[QueueLane, Gathered] = {}

    def gather(self, route: Route, priority: int = 0) -> Gathered:
        """Where messages for these queues go. `priority` counts where a queue has levels."""
        # Priorities that make no difference do not part messages.
        key = (route, min(priority, route.levels - 1))
        gathered = self._open.get(key)
        lanes = route.lanes(priority)
        if gathered is None or gathered.full or any(self._last[lane] is not gathered for lane in lanes):
            gathered = self._open[key] = Gathered(lanes, self._now_ms())
            self.groups.append(gathered)
            for lane in lanes:
                self._last[lane] = gathered
        return gathered

    def count_for(self, lane: QueueLane) -> int:
        return sum(group.count for group in self.groups if lane in group.lanes)


class Gatherer:
    """What a turn has gathered; handed to the journal when the turn is over."""

    def __init__(self, log: Log, now_ms: Callable[[], int], before_flush: Callable[[], None]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._before_flush = before_flush
        self._soon = asyncio.get_running_loop().call_soon
        self._turn = Gathering(now_ms)
        self._told: list[Callable[[], None]] = []
        self._refused: list[Callable[[], None]] = []
        self._planned = False
        self.messages = 0
        self.on_room: Callable[[str | None], None] = lambda _why: None
        self.on_expiring: Callable[[tuple[QueueLane, ...]], None] = lambda _lanes: None

    def gather(self, route: Route, priority: int = 0) -> Gathered:
        if not self._planned:
            self._plan()
        return self._turn.gather(route, priority)

    def gathered(self, queue: Queue) -> int:
        """Messages for it that are not handed to the journal yet."""
        return sum(self._turn.count_for(lane) for lane in queue.lanes)

    def after_disk(self, call: Callable[[], None], refused: Callable[[], None] | None = None) -> None:
        """`call` once all that was gathered so far is on disk; `refused` if there is no room for it."""
        self._told.append(call)
        self._refused.append(refused or call)
        if not self._planned:
            self._plan()

    def _plan(self) -> None:
        self._planned = True
        self._soon(self.flush)

    def flush(self) -> None:
        """Hand all of it to the journal, in the order in which it came."""
        self._planned = False
        self._before_flush()
        groups = [one for one in self._turn.groups if one.count]
        told, refused = self._told, self._refused
        self._told, self._refused, self._turn = [], [], Gathering(self._now_ms)
        if groups:
            try:
                self._log.check_room(sum(one.frame_bytes for one in groups))
            except DiskFull as error:
                self.on_room(str(error))
                for call in refused:
                    call()
                return
        whole = True
        for one in groups:
            self.messages += one.count
            if one.expiring:
                self.on_expiring(one.lanes)
            whole = self._append(one) and whole
        if groups:
            self.on_room(why_not_more(self._log))
        if told:
            calls = told if whole else refused
            self._log.append_delta(Section.NOTHING, b"", lambda _: _call_all(calls))

    def _append(self, group: Gathered) -> bool:
        """False if the journal cannot take it: then it is nowhere, and the others are all the same."""
        before = [lane.partition.next_offset for lane in group.lanes]
        try:
            group.append_to(self._log)
        except MainstemError as error:
            events.error("messages could not be written", count=group.count, error=error)
            for lane, next_offset in zip(group.lanes, before, strict=True):
                lane.partition.next_offset = next_offset
            return False
        return True


def why_not_more(log: Log) -> str | None:
    """A disk that does not keep up must not fill the memory with what waits for it."""
    waiting = log.pending_bytes
    if waiting <= MOST_WAITING_BYTES:
        return None
    return f"{waiting >> 20} MiB wait to be written: the disk does not keep up"


def _call_all(calls: list[Callable[[], None]]) -> None:
    for call in calls:
        call()
