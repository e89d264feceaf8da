"""Consumers of streams: of a queue of that type, or of any topic. They read, and nothing goes by being read.

An acknowledgement makes room for more and means nothing else. Every message has its offset among its headers,
so that a reader can come back to where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pamqp import commands

from mainstem.broker.partition import Partition
from mainstem.broker.queues import Found, OpenBatch, Queue
from mainstem.broker.queues.opened import open_batch
from mainstem.fronts.amqp.unacked import Held
from mainstem.model.batch import read_header
from mainstem.model.errors import MainstemError, OffsetOutOfRange
from mainstem.model.logs import get_log
from mainstem.model.ports import Buffer
from mainstem.model.records import read_control
from mainstem.wire.amqp.deliver import Deliveries

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel

events = get_log(__name__)

READ_BYTES = 1 << 20
# A larger batch is opened off the loop.
OPENED_AT_ONCE = 64 << 10
MESSAGES_AT_ONCE = 256


class Position:
    """How far one partition has been read."""

    __slots__ = ("at", "batches", "offset", "opened", "partition")

    def __init__(self, partition: Partition, offset: int) -> None:
        self.partition = partition
        self.offset = offset  # of the first message not delivered
        self.batches: deque[Buffer] = deque()  # read, not opened
        self.opened: OpenBatch | None = None
        self.at = 0  # the first record of `opened` not delivered


class StreamConsumer:
    """A `Taker` that takes nothing: a queue only tells it when it is gone."""

    def __init__(
        self, channel: Channel, tag: str, queue: Queue | None, positions: list[Position], priority: int
    ) -> None:
        self.channel = channel
        self.tag = tag
        self.priority = priority
        self.prefetch = channel.prefetch
        self.in_flight = 0
        self.is_open = False
        self._queue = queue
        self._positions = positions
        self._woken = asyncio.Event()
        self._deliveries = Deliveries(
            channel.number, tag, channel.connection.session.frame_max, with_offset=True
        )

    # --- as consumers of queues have it ----------------------------------------------------------

    def start(self) -> None:
        self.is_open = True
        self.channel.connection.spawn(self._run())

    def wake(self) -> None:
        self._woken.set()

    def settled(self, count: int) -> None:
        self.in_flight -= count
        self.channel.in_flight -= count
        self.wake()

    def stop(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        for position in self._positions:
            position.partition.stop_waiting(self.wake)
        if self._queue is not None:
            self._queue.unsubscribe(self)
        self.wake()

    def credit(self) -> int:
        return 0

    def take(self, queue: Queue, found: list[Found]) -> None:
        raise AssertionError("a stream is read, not taken from")

    def cancelled(self, why: str) -> None:
        """What it reads is gone."""
        self._queue = None
        self.stop()
        self.channel.consumers.pop(self.tag, None)
        if self.channel.connection.session.can("consumer_cancel_notify"):
            self.channel.connection.send_behind(self.channel.number, commands.Basic.Cancel(self.tag, True))

    # --- as queues have it: deliveries that are held end here ------------------------------------

    def ack(self, lane: int, first: int, stop: int) -> None:
        """Only makes room."""

    def give_back(self, lane: int, first: int, stop: int, failed: bool = True) -> None:
        """It is still there to be read again."""

    def reject(self, lane: int, first: int, stop: int) -> None:
        """It stays for others."""

    # --- reading ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self.is_open:
                self._woken.clear()
                served = [await self._serve(position) for position in self._positions if self._room()]
                if not any(served) and self.is_open:
                    for position in self._positions:
                        if position.offset >= position.partition.last_stable_offset():
                            position.partition.wait(self.wake)
                    await self._woken.wait()
        except MainstemError as error:
            events.warning("a stream cannot be read", consumer=self.tag, why=str(error))
            if self.is_open:
                self.cancelled(str(error))

    def _room(self) -> int:
        channel = self.channel
        if not self.is_open or channel.connection.outbox.is_full:
            return 0
        room = self.prefetch - self.in_flight
        if channel.shared_prefetch:
            room = min(room, channel.shared_prefetch - channel.in_flight)
        return max(min(room, MESSAGES_AT_ONCE), 0)

    async def _serve(self, position: Position) -> bool:
        """Deliver what fits of the batch at hand, or get the next one; False if there is nothing."""
        if position.opened is None and not await self._open_next(position):
            return False
        opened, at, room = position.opened, position.at, self._room()
        if opened is None or not room:
            return opened is None
        stop = min(at + room, len(opened.spans))
        channel = self.channel
        tag = channel.next_tag
        out = channel.connection.outbox.out
        channel.next_tag = self._deliveries.encode(out, tag, False, opened, at, stop)
        channel.unacked.hold(Held(tag, tag + stop - at, self, 0, 0, self))
        self.in_flight += stop - at
        channel.in_flight += stop - at
        channel.connection.outbox.flush_soon()
        if stop < len(opened.spans):
            position.at = stop
        else:
            position.opened = None
        return True

    async def _open_next(self, position: Position) -> bool:
        if not position.batches:
            await self._read(position)
        if not position.batches:
            return False
        batch = position.batches.popleft()
        if len(batch) > OPENED_AT_ONCE:
            store = self.channel.connection.session.broker.store
            opened: OpenBatch = await store.in_reader(open_batch, batch)
        else:
            opened = open_batch(batch)
        wanted = position.offset - opened.base_offset
        spans = enumerate(opened.spans)
        first = next((index for index, span in spans if span[3] >= wanted), len(opened.spans))
        position.offset = read_header(batch).last_offset + 1
        if first < len(opened.spans):
            position.opened, position.at = opened, first
        return True

    async def _read(self, position: Position) -> None:
        """The next batches that count: not of transactions that are open or were aborted."""
        broker = self.channel.connection.session.broker
        reading, partition = broker.reading, position.partition
        while not position.batches:
            offset = position.offset
            try:
                bounds = reading.bounds(partition, offset, True)
                if offset >= bounds.upto:
                    return
                found = await broker.store.in_reader(
                    reading.batches, partition.id, offset, READ_BYTES, bounds.upto
                )
                end = read_header(found[-1]).last_offset + 1 if found else 0
                result = reading.result(partition, offset, True, bounds, found, end)
            except OffsetOutOfRange:
                position.offset = max(partition.log_start, min(offset, partition.high_watermark))
                if position.offset == offset:
                    return
                continue
            if not found:
                return
            position.batches.extend(_committed(found, result.aborted or []))
            if not position.batches:
                position.offset = end


def _committed(batches: Sequence[Buffer], aborted: list[tuple[int, int]]) -> list[Buffer]:
    """Without markers, and without what was aborted: (producer id, first offset)."""
    kept: list[Buffer] = []
    ahead = sorted(aborted, key=lambda pair: pair[1], reverse=True)
    under_way: set[int] = set()
    for batch in batches:
        header = read_header(batch)
        while ahead and ahead[-1][1] <= header.last_offset:
            under_way.add(ahead.pop()[0])
        if header.is_control:
            if not read_control(batch):
                under_way.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in under_way):
            kept.append(batch)
    return kept


async def positions_of(
    channel: Channel, partitions: Sequence[Partition], where: tuple[str, int]
) -> list[Position]:
    """Where to begin in each partition: ("first" | "last" | "next" | "offset" | "time", number)."""
    broker = channel.connection.session.broker
    kind, number = where
    found = []
    for partition in partitions:
        end = partition.last_stable_offset()
        if kind == "first":
            offset = partition.log_start
        elif kind == "last":
            offset = max(end - 1, partition.log_start)
        elif kind == "offset":
            offset = max(min(number, end), partition.log_start)
        elif kind == "time":
            by_time = await broker.store.in_reader(broker.reading.offset_for_time, partition, number, end)
            offset = end if by_time is None else by_time[0]
        else:
            offset = end
        found.append(Position(partition, offset))
    return found
