"""How often a message came back is known after a crash, and costs ranges, not a number for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from queue_kit import declare, eventually, publish, run, take_all

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.queues import Namespace, Queue, Queues
from mainstem.broker.queues.deltas import AckDelta, Failed, LaneState
from mainstem.broker.store import Section
from mainstem.kernel.log.log import LogOptions
from mainstem.model.errors import DiskFull
from mainstem.testing.memory_disk import MemoryDisk

FOLDER = "/data"
OPTIONS = BrokerOptions(FOLDER, log=LogOptions(file_bytes=1 << 20, reserve_bytes=64 << 10))
Act = Callable[[Queues, Namespace], Awaitable[None]]


async def fail(queue: Queue, count: int = 1) -> None:
    """Take the oldest `count` messages and give them back together."""
    found = [await queue.get() for _ in range(count)]
    lane, offsets = found[0].lane, [one.first for one in found]
    queue.give_back(lane, min(offsets), max(offsets) + 1)


def counts(queue: Queue) -> list[tuple[int, int, int]]:
    return queue.lanes[0].state.failed()


def crashed(*acts: Act) -> None:
    """Each act on what a power cut left of the one before: all that was on disk by its end, and no more."""

    async def play() -> None:
        disk = MemoryDisk(FOLDER)
        for act in acts:
            left = disk.after_power_cut()
            broker = await Broker.open(OPTIONS, disk=disk)
            try:
                await act(broker.queues, broker.queues.topology.namespace("/"))
                await broker.store.barrier()
                tape = list(disk.tape)
            finally:
                await broker.close()
            for recorded in tape:
                left.play(recorded)
            disk = left.after_power_cut()

    asyncio.run(play())


def test_failed_deliveries_are_counted_across_a_crash() -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", kind="quorum", delivery_limit=20)
        await publish(queues, ns, "work", b"a", b"b", b"c")
        await fail(queue, 2)
        await fail(queue)
        await queues.acks.on_disk()

    async def second(queues: Queues, ns: Namespace) -> None:
        assert counts(ns.queues["work"]) == [(0, 1, 2), (1, 2, 1)]

    crashed(first, second)


def test_failures_reach_the_disk_by_themselves_after_a_moment() -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", kind="quorum")
        await publish(queues, ns, "work", b"a")
        before = queues.log.submitted
        await fail(queue)
        await eventually(lambda: queues.log.submitted > before + 1)  # one notes the delivery

    async def second(queues: Queues, ns: Namespace) -> None:
        assert counts(ns.queues["work"]) == [(0, 1, 1)]

    crashed(first, second)


def test_a_poison_message_is_buried_however_often_the_broker_crashes() -> None:
    async def begin(queues: Queues, ns: Namespace) -> None:
        more = {"dead_letter_exchange": "", "dead_letter_key": "dead"}
        await declare(queues, ns, "work", kind="quorum", delivery_limit=3, **more)
        await declare(queues, ns, "dead")
        await publish(queues, ns, "work", b"poison")

    async def one_try(queues: Queues, ns: Namespace) -> None:
        await fail(ns.queues["work"])
        await queues.acks.on_disk()

    async def last_try(queues: Queues, ns: Namespace) -> None:
        await fail(ns.queues["work"])
        await eventually(lambda: ns.queues["dead"].ready == 1)
        assert await take_all(ns.queues["work"]) == []

    crashed(begin, one_try, one_try, one_try, last_try)


def test_what_was_acknowledged_after_it_failed_stays_away() -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", kind="quorum")
        await publish(queues, ns, "work", b"a", b"b")
        await fail(queue, 2)
        found = await queue.get()
        assert found is not None
        queue.ack(0, found.first, found.first + 1)
        await queues.acks.on_disk()

    async def second(queues: Queues, ns: Namespace) -> None:
        assert counts(ns.queues["work"]) == [(1, 2, 1)]
        assert await take_all(ns.queues["work"]) == [b"b"]

    crashed(first, second)


def test_a_message_that_comes_back_many_times_in_a_moment_is_written_once(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", kind="quorum")
        await publish(queues, ns, "work", b"a")
        await fail(queue)
        await queues.acks.on_disk()
        before, written = queues.log.submitted, queues.log.bytes_written
        for _ in range(50):
            found = queue._next(1)
            assert found is not None
            queue.give_back(0, 0, 1)
        await queues.acks.on_disk()
        assert queues.log.submitted == before + 2  # with the barrier
        assert queues.log.bytes_written - written < 500
        assert counts(queue) == [(0, 1, 51)]

    run(tmp_path, act)


def test_classic_queues_without_a_limit_write_nothing_when_messages_come_back(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a")
        await fail(queue)
        await queues.acks.on_disk()
        before = queues.log.submitted
        await fail(queue)
        await queues.acks.on_disk()
        assert (queues.log.submitted, counts(queue)) == (before + 1, [])

    run(tmp_path, act)


def test_a_snapshot_keeps_ranges_and_what_follows_it_is_counted_on() -> None:
    count = 5000

    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", kind="quorum")
        await publish(queues, ns, "work", *(b"x" for _ in range(count)))
        assert queue.ready == count
        queue.lanes[0].state.take(count)
        queue.give_back(0, 0, count)
        saved = queue.lanes[0].saved()
        assert saved is not None
        assert saved.failed == ((0, count, 1),)
        assert len(msgspec.msgpack.encode(saved)) < 100
        await queues._store.snapshot()
        queue.lanes[0].state.take(10)
        queue.give_back(0, 0, 10)
        await queues.acks.on_disk()

    async def second(queues: Queues, ns: Namespace) -> None:
        assert counts(ns.queues["work"]) == [(0, 10, 2), (10, count, 1)]

    crashed(first, second)


def test_counts_that_earlier_versions_wrote_one_by_one_are_read() -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", kind="quorum")
        await publish(queues, ns, "work", *(b"x" for _ in range(9)))
        # A lane as the version before wrote it, down to the bytes: tag, id, floor, acked, delivered, failed.
        old = [3, queue.id, 1, [[4, 5]], 9, [[2, 1], [3, 1], [4, 7], [6, 2]], False]
        queues.log.append_delta(Section.ACKS, msgspec.msgpack.encode(old), None)

    async def second(queues: Queues, ns: Namespace) -> None:
        queue = ns.queues["work"]
        assert counts(queue) == [(2, 4, 1), (6, 7, 2)]
        assert (queue.ready, queue.lanes[0].state.floor) == (7, 1)
        await queues._store.snapshot()

    async def third(queues: Queues, ns: Namespace) -> None:
        assert counts(ns.queues["work"]) == [(2, 4, 1), (6, 7, 2)]

    crashed(first, second, third)


def test_even_older_lanes_without_the_last_fields_are_read() -> None:
    read = msgspec.msgpack.Decoder(AckDelta).decode
    assert read(msgspec.msgpack.encode([3, 7, 1, [], 2])) == LaneState(7, 1, (), 2)
    assert read(msgspec.msgpack.encode([5, [[7, [[0, 4, 2]]]]])) == Failed(((7, ((0, 4, 2),)),))


def test_on_a_full_disk_counts_wait_and_acknowledgements_do_not() -> None:
    async def play() -> None:
        disk = MemoryDisk(FOLDER)
        log = LogOptions(file_bytes=64 << 10, reserve_bytes=16 << 10)
        broker = await Broker.open(BrokerOptions(FOLDER, log=log), disk=disk)
        queues, ns = broker.queues, broker.queues.topology.namespace("/")
        queue = await declare(queues, ns, "work", kind="quorum")
        await publish(queues, ns, "work", b"a", b"b")
        found = await queue.get()
        assert found is not None
        disk.space_bytes = 0
        await fill(broker, b"x" * 1000)
        await fill(broker, b"")
        before = queues.log.submitted
        queue.ack(0, found.first, found.first + 1)
        await fail(queue)
        queues.acks.flush()
        assert queues.log.submitted == before + 1
        disk.space_bytes = 1 << 40
        await eventually(lambda: queues.log.submitted == before + 2)
        await broker.close()

    asyncio.run(play())


async def fill(broker: Broker, payload: bytes) -> None:
    """With whatever may use the reserve, until only what frees space is taken."""
    try:
        while True:
            await broker.store.commit(Section.NOTHING, payload, essential=True)
    except DiskFull:
        return
