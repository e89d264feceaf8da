"""Every state that a crash can leave behind, and queues recover from each with all that was promised.

A broker works on a disk in memory, step by step; each step is to happen whole or not at all. At every point
the power is cut, in every way that test_enumeration.py knows, and a new broker must find queues as they were
after some step: the last one that was on disk, or one after it. What was delivered before must say so.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from test_enumeration import digest, kept_after_a_cut

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.queues import ExchangeSpec, Found, Gathered, Queue, QueueOptions, QueueSpec, Target, Work
from mainstem.broker.queues.dead_letters import join_route
from mainstem.kernel.log.log import LogOptions
from mainstem.model import record_loop
from mainstem.model.errors import CorruptFile
from mainstem.testing.memory_disk import Mark, MemoryDisk

FOLDER = "/data"
OPTIONS = BrokerOptions(FOLDER, log=LogOptions(file_bytes=8192, file_frames=1000, reserve_bytes=512))
START_MS = 1_700_000_000_000
DELAY_MS = 60_000
DEADLINE_S = 20.0

View = tuple[tuple[str, tuple[bytes, ...]], ...]  # queue -> what is in it, held or not, in order


class ClockByHand:
    def __init__(self) -> None:
        self.at_ms = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


def body_at(queue: Queue, lane: int, offset: int) -> bytes:
    batch = queue.lanes[lane].reader.at(offset)
    span = batch.spans[offset - batch.base_offset]
    return batch.data[span[6] : span[6] + span[7]]


def offsets(queue: Queue, lane: int) -> list[int]:
    """Of messages that are not done with."""
    held = queue.lanes[lane]
    held.grow()
    state = held.state
    return [offset for offset in range(state.floor, state.end) if not state.is_acked(offset)]


def view(broker: Broker) -> View:
    found: dict[str, tuple[bytes, ...]] = {}
    for namespace in broker.queues.book.namespaces.values():
        for name, queue in namespace.queues.items():
            lanes = range(len(queue.lanes))
            found[name] = tuple(body_at(queue, lane, at) for lane in lanes for at in offsets(queue, lane))
    assert len(broker.queues.delays) == len(found.get("delays", ())), (
        "each has its time, and nothing else has"
    )
    return tuple(sorted(found.items()))


@dataclass
class Tale:
    """What happened: views after each step, and which messages were delivered by then."""

    views: list[View] = field(default_factory=list)
    delivered: list[frozenset[tuple[str, bytes]]] = field(default_factory=list)


class Teller:
    """Works on a broker and writes its tale."""

    def __init__(self, broker: Broker, disk: MemoryDisk, clock: ClockByHand) -> None:
        self._broker = broker
        self._queues = broker.queues
        self._ns = broker.queues.topology.namespace("/")
        self._disk = disk
        self._clock = clock
        self._delivered: set[tuple[str, bytes]] = set()
        self.tale = Tale()

    def note(self) -> None:
        """What is there now is on disk."""
        self.tale.views.append(view(self._broker))
        self.tale.delivered.append(frozenset(self._delivered))
        self._disk.mark(len(self.tale.views) - 1)

    async def make(self, done: Awaitable[object]) -> None:
        await done
        self.note()

    async def queue(self, name: str, **options: object) -> None:
        spec = QueueSpec(name, options=QueueOptions(**options))  # type: ignore[arg-type]
        await self.make(self._queues.topology.declare_queue(self._ns, spec))

    async def exchange(self, name: str, *queues: str) -> None:
        await self.make(self._queues.topology.declare_exchange(self._ns, ExchangeSpec(name, "fanout")))
        for queue in queues:
            await self.make(self._queues.topology.bind(self._ns, name, Target("queue", queue), "", {}))

    async def publish(self, exchange: str, key: str, *bodies: bytes, priority: int = 0) -> None:
        route = self._queues.route(self._ns, exchange, (key,))
        for body in bodies:
            add(self._queues.gather(route, priority), body, exchange, key)
        await self._on_disk()

    async def hold(self, body: bytes, key: str) -> None:
        self._hold(body, key)
        await self._on_disk()

    def _hold(self, body: bytes, key: str, work: Work | None = None) -> None:
        gathered = self._queues.gather_delayed(self._clock.now_ms() + DELAY_MS, work)
        add(gathered, body, "", key, (("space", b"/"),))

    async def _on_disk(self) -> None:
        done = asyncio.Event()

        def noted() -> None:
            self.note()
            done.set()

        self._queues.after_disk(noted)
        await asyncio.wait_for(done.wait(), DEADLINE_S)

    async def get(self, name: str) -> Found:
        queue = self._ns.queues[name]
        found = await queue.get()
        assert found is not None
        self._delivered.add((name, body_at(queue, found.lane, found.first)))
        self.note()
        return found

    async def ack(self, name: str, found: Found) -> None:
        self._ns.queues[name].ack(found.lane, found.first, found.first + found.count)
        await self.make(self._queues.acks.on_disk())

    async def reject(self, name: str, found: Found, target: str) -> None:
        before = self._ns.queues[target].ready
        self._ns.queues[name].reject(found.lane, found.first, found.first + found.count)
        await self._until(lambda: self._ns.queues[target].ready > before)

    async def wait_for_due(self, name: str, ready: int) -> None:
        await self._until(lambda: self._ns.queues[name].ready >= ready)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        until = asyncio.get_running_loop().time() + DEADLINE_S
        while not is_so():
            assert asyncio.get_running_loop().time() < until, "it did not happen in time"
            await asyncio.sleep(0)
        self.note()

    async def transact(self, took: str, found: Found, held: bytes, **published: bytes) -> None:
        """Acknowledge one message, hold one back and publish others."""
        work = self._queues.transaction()
        self._hold(held, "copy", work)
        for key, body in published.items():
            add(work.gather(self._queues.route(self._ns, "", (key,))), body, "", key)
        work.ack(self._ns.queues[took], found.lane, found.first, found.first + found.count)
        await self.make(work.commit())

    async def snapshot(self) -> None:
        await self.make(self._broker.store.snapshot())


def add(
    gathered: Gathered, body: bytes, exchange: str, key: str, more: tuple[tuple[str, bytes], ...] = ()
) -> None:
    coded = record_loop.encode_headers((("route", join_route(exchange, key)), ("amqp", b"\0\0"), *more))
    record_loop.append_record(gathered.out, 0, gathered.count, key.encode(), body, coded)
    gathered.added(1)


async def a_little_of_everything(teller: Teller, clock: ClockByHand) -> None:
    await teller.queue("work", dead_letter_exchange="", dead_letter_key="dead")
    await teller.queue("dead")
    await teller.queue("copy", max_priority=2)
    await teller.exchange("all", "copy", "work")
    await teller.publish("", "work", b"a", b"b", b"c")
    first, second = await teller.get("work"), await teller.get("work")
    await teller.publish("all", "", b"d" * 600)
    await teller.ack("work", second)
    await teller.reject("work", first, "dead")
    await teller.hold(b"g" * 900, "work")
    await teller.snapshot()
    await teller.publish("", "copy", b"urgent", priority=2)
    await teller.transact("copy", await teller.get("copy"), b"k", work=b"e", dead=b"f")
    await teller.snapshot()
    clock.at_ms += 2 * DELAY_MS
    await teller.hold(b"h", "work")  # has the clock looked at: the one before it is due
    await teller.wait_for_due("work", ready=4)
    await teller.transact("dead", await teller.get("dead"), b"l", copy=b"i" * 3000)
    await teller.publish("all", "", b"j" * 3000)
    await teller.snapshot()
    await teller.ack("work", await teller.get("work"))
    await teller.reject("work", await teller.get("work"), "dead")


async def told(disk: MemoryDisk) -> Tale:
    clock = ClockByHand()
    broker = await Broker.open(OPTIONS, disk=disk, clock=clock)
    teller = Teller(broker, disk, clock)
    teller.note()
    await a_little_of_everything(teller, clock)
    disk.mark(None)  # what closing does is of no interest here
    await broker.close()
    return teller.tale


async def cut_everywhere(tape: list[object], tale: Tale) -> int:
    disk, chance = MemoryDisk(FOLDER), random.Random(1)
    promised = -1
    seen: set[tuple[bytes, int]] = set()
    for recorded in tape:
        if isinstance(recorded, Mark):
            if recorded.value is None:
                break
            assert isinstance(recorded.value, int)
            promised = recorded.value
        else:
            disk.play(recorded)
        for kept in kept_after_a_cut(disk.pending, chance):
            left = disk.after_power_cut(kept)
            key = (digest(left), promised)
            if key not in seen:
                seen.add(key)
                await recovers(left, tale, promised)
    return len(seen)


async def recovers(disk: MemoryDisk, tale: Tale, promised: int) -> None:
    broker = await Broker.open(OPTIONS, disk=disk, clock=ClockByHand())
    try:
        found = view(broker)
        if promised < 0:
            return  # the folder was just being made
        assert found in tale.views[promised:], f"after step {promised}"
        for queue in broker.queues.topology.namespace("/").queues.values():
            for lane in queue.lanes:
                for offset in offsets(queue, lane.index):
                    if (queue.name, body_at(queue, lane.index, offset)) in tale.delivered[promised]:
                        assert offset < lane.delivered_upto, "it was delivered, and would not say so"
    finally:
        await broker.close()


@pytest.mark.timeout(300)
def test_queues_hold_everything_promised_wherever_the_power_is_cut() -> None:
    async def play() -> int:
        disk = MemoryDisk(FOLDER)
        tale = await told(disk)
        return await cut_everywhere(disk.tape, tale)

    assert asyncio.run(play()) > 300


@pytest.mark.timeout(300)
def test_the_enumeration_of_queues_notices_a_sync_that_is_left_out() -> None:
    async def play() -> None:
        disk = MemoryDisk(FOLDER, ignored={"fdatasync"})
        tale = await told(disk)
        await cut_everywhere(disk.tape, tale)

    with pytest.raises((AssertionError, CorruptFile)):
        asyncio.run(play())
