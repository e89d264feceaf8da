"""Records for topics in a transaction of queues: one frame with the rest of it, or nothing at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from queue_kit import SMALL_FILES, add, declare, publish, take_all

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition
from mainstem.broker.queues import Namespace
from mainstem.kernel.log.layout import MAX_ATOMIC_BYTES
from mainstem.kernel.log.log import LogOptions
from mainstem.model.batch import read_header
from mainstem.model.errors import (
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    NotSupported,
    RequestTooLarge,
)
from mainstem.model.record import Record
from mainstem.model.records import decode_records, encode_batch
from mainstem.testing.memory_disk import Mark, MemoryDisk, Op, Write

FOLDER = "/data"
OPTIONS = BrokerOptions(FOLDER, log=LogOptions(file_bytes=64 << 10, reserve_bytes=4096))
Act = Callable[[Broker, Namespace], Awaitable[None]]
View = tuple[tuple[bytes, ...], int, int]  # records of the topic, what is ready in the source and the target


def play(folder: Path, *acts: Act) -> None:
    async def all_of_them() -> None:
        for act in acts:
            broker = await Broker.open(BrokerOptions(folder=str(folder), log=SMALL_FILES))
            try:
                await act(broker, broker.queues.topology.namespace("/"))
            finally:
                await broker.close()

    asyncio.run(all_of_them())


def batch(broker: Broker, *values: bytes, key: bytes | None = b"k", **more: int) -> memoryview:
    now_ms = broker.clock.now_ms()
    records = [Record(offset, now_ms, key, value, ()) for offset, value in enumerate(values)]
    return memoryview(encode_batch(records, **more))


def values(broker: Broker, partition: Partition) -> list[bytes]:
    """All that readers may see, in the order of their offsets, which have no gaps."""
    end = partition.high_watermark
    batches = broker.store.log.read(partition.id, 0, 1 << 30, end, wait=True) if end else []
    records = [record for one in batches for record in decode_records(one)]
    assert [record.offset for record in records] == list(range(end))
    return [record.value for record in records]


async def published(broker: Broker, partition: Partition, data: memoryview) -> int:
    done = asyncio.get_running_loop().create_future()
    base, _, _ = broker.publisher.publish(partition, data, done.set_result)
    await done
    return base


def test_records_publishes_and_acks_of_a_transaction_are_one_frame(tmp_path: Path) -> None:
    async def first(broker: Broker, ns: Namespace) -> None:
        queues = broker.queues
        source, target = await declare(queues, ns, "source"), await declare(queues, ns, "target")
        one = (await broker.create_topic("one")).partitions[0]
        two = (await broker.create_topic("two")).partitions[0]
        await publish(queues, ns, "source", b"in")
        found = await source.get()
        assert found is not None
        await queues.acks.on_disk()
        before = broker.store.log.submitted
        work = queues.transaction()
        work.append(one, broker.publisher.check(one, batch(broker, b"a", b"b")))
        add(work.gather(queues.route(ns, "", ("target",))), b"out")
        work.append(two, broker.publisher.check(two, batch(broker, b"c")))
        work.append(one, broker.publisher.check(one, batch(broker, b"d")))
        work.ack(source, found.lane, found.first, found.first + 1)
        assert (one.next_offset, two.next_offset, source.unacked, target.ready) == (0, 0, 1, 0)
        done = work.commit()
        assert (one.high_watermark, two.high_watermark, target.ready) == (0, 0, 0)
        await done
        assert broker.store.log.submitted == before + 1
        assert (values(broker, one), values(broker, two)) == ([b"a", b"b", b"d"], [b"c"])
        assert (source.unacked, target.ready) == (0, 1)
        assert await published(broker, one, batch(broker, b"after")) == 3

    async def second(broker: Broker, ns: Namespace) -> None:
        one, two = (broker.topics.by_name[name].partitions[0] for name in ("one", "two"))
        assert values(broker, one) == [b"a", b"b", b"d", b"after"]
        assert values(broker, two) == [b"c"]
        assert (ns.queues["source"].ready, await take_all(ns.queues["target"])) == (0, [b"out"])

    play(tmp_path, first, second)


def test_records_of_a_transaction_that_is_dropped_leave_nothing(tmp_path: Path) -> None:
    async def act(broker: Broker, ns: Namespace) -> None:
        partition = (await broker.create_topic("topic")).partitions[0]
        work = broker.queues.transaction()
        work.append(partition, broker.publisher.check(partition, batch(broker, b"never")))
        del work
        assert await published(broker, partition, batch(broker, b"first")) == 0
        assert values(broker, partition) == [b"first"]

    play(tmp_path, act)


def test_a_transaction_that_cannot_be_written_takes_no_offsets(tmp_path: Path) -> None:
    async def act(broker: Broker, ns: Namespace) -> None:
        queue = await declare(broker.queues, ns, "work")
        partition = (
            await broker.create_topic("topic", configs={"max.message.bytes": str(1 << 30)})
        ).partitions[0]
        await publish(broker.queues, ns, "work", b"held")
        found = await queue.get()
        assert found is not None
        work = broker.queues.transaction()
        for size in (10, MAX_ATOMIC_BYTES):
            work.append(partition, broker.publisher.check(partition, batch(broker, b"x" * size)))
        add(work.gather(broker.queues.route(ns, "", ("work",))), b"never")
        work.ack(queue, found.lane, found.first, found.first + 1)
        with pytest.raises(RequestTooLarge):
            work.commit()
        assert (partition.next_offset, queue.unacked) == (0, 1)
        assert await published(broker, partition, batch(broker, b"first")) == 0
        await publish(broker.queues, ns, "work", b"second")
        assert values(broker, partition) == [b"first"]
        assert await take_all(queue) == [b"second"]

    play(tmp_path, act)


def test_readers_that_wait_for_a_topic_are_told_of_a_transaction(tmp_path: Path) -> None:
    async def act(broker: Broker, ns: Namespace) -> None:
        queue = await declare(broker.queues, ns, "work")
        partition = (await broker.create_topic("topic")).partitions[0]
        seen: list[tuple[int, int]] = []
        partition.wait(lambda: seen.append((partition.high_watermark, queue.ready)))
        work = broker.queues.transaction()
        work.append(partition, broker.publisher.check(partition, batch(broker, b"a")))
        add(work.gather(broker.queues.route(ns, "", ("work",))), b"out")
        await work.commit()
        assert seen == [(1, 1)], "whoever sees a part of it sees all of it"

    play(tmp_path, act)


def test_a_topic_with_the_brokers_time_stamps_what_is_committed(tmp_path: Path) -> None:
    async def act(broker: Broker, ns: Namespace) -> None:
        configs = {"message.timestamp.type": "LogAppendTime"}
        partition = (await broker.create_topic("topic", configs=configs)).partitions[0]
        work = broker.queues.transaction()
        old = encode_batch([Record(0, 1000, b"k", b"v", ())])
        work.append(partition, broker.publisher.check(partition, memoryview(old)))
        began_ms = broker.clock.now_ms()
        await work.commit()
        (stored,) = broker.store.log.read(partition.id, 0, 1 << 20, 1, wait=True)
        header = read_header(stored)
        assert header.is_log_append_time
        assert header.max_timestamp_ms >= began_ms
        assert broker.store.log.max_timestamp_ms(partition.id) == header.max_timestamp_ms

    play(tmp_path, act)


def test_a_topic_that_is_acknowledged_early_goes_on_after_a_transaction(tmp_path: Path) -> None:
    async def first(broker: Broker, ns: Namespace) -> None:
        partition = (await broker.create_topic("topic", configs={"durability": "os"})).partitions[0]
        assert partition.topic.policy.early
        for number in range(4):
            await published(broker, partition, batch(broker, b"%d" % (2 * number)))
            work = broker.queues.transaction()
            data = batch(broker, b"%d" % (2 * number + 1))
            work.append(partition, broker.publisher.check(partition, data))
            await work.commit()
        assert values(broker, partition) == [b"%d" % number for number in range(8)]

    async def second(broker: Broker, ns: Namespace) -> None:
        partition = broker.topics.by_name["topic"].partitions[0]
        assert values(broker, partition) == [b"%d" % number for number in range(8)]
        assert partition.leader_epoch == 0, "the stop was clean: no offset was skipped"

    play(tmp_path, first, second)


def test_what_a_topic_would_not_take_is_refused_before_the_end(tmp_path: Path) -> None:
    async def act(broker: Broker, ns: Namespace) -> None:
        configs = {"max.message.bytes": "1000", "cleanup.policy": "compact"}
        partition = (await broker.create_topic("small", configs=configs)).partitions[0]
        check = broker.publisher.check
        with pytest.raises(BatchTooLarge):
            check(partition, batch(broker, b"x" * 1000))
        with pytest.raises(InvalidRecord, match="no key"):
            check(partition, batch(broker, b"x", key=None))
        with pytest.raises(NotSupported):
            check(partition, batch(broker, b"x", producer_id=7, producer_epoch=0, base_sequence=0))
        late = encode_batch([Record(0, broker.clock.now_ms() + 10**10, b"k", b"v", ())])
        with pytest.raises(InvalidTimestamp):
            check(partition, memoryview(late))

    play(tmp_path, act)


def test_a_topic_with_a_codec_of_its_own_keeps_records_in_it(tmp_path: Path) -> None:
    async def act(broker: Broker, ns: Namespace) -> None:
        partition = (await broker.create_topic("gzip", configs={"compression.type": "gzip"})).partitions[0]
        work = broker.queues.transaction()
        work.append(partition, broker.publisher.check(partition, batch(broker, b"x" * 5000, b"y")))
        await work.commit()
        (stored,) = broker.store.log.read(partition.id, 0, 1 << 20, 2, wait=True)
        assert (read_header(stored).codec, len(stored) < 1000) == (1, True)
        assert values(broker, partition) == [b"x" * 5000, b"y"]

    play(tmp_path, act)


# --- wherever the power is cut -------------------------------------------------------------------

BEFORE: View = ((), 1, 0)
AFTER: View = ((b"x" * 700, b"y" * 700), 0, 1)


def view(broker: Broker, ns: Namespace) -> View:
    records = values(broker, broker.topics.by_name["topic"].partitions[0])
    return tuple(records), ns.queues["source"].ready, ns.queues["target"].ready


async def transacted(disk: MemoryDisk) -> None:
    """Marks the begin and the end of the transaction."""
    broker = await Broker.open(OPTIONS, disk=disk)
    queues, ns = broker.queues, broker.queues.topology.namespace("/")
    source, _ = await declare(queues, ns, "source"), await declare(queues, ns, "target")
    partition = (await broker.create_topic("topic")).partitions[0]
    await publish(queues, ns, "source", b"in")
    found = await source.get()
    assert found is not None
    disk.mark("begin")
    work = queues.transaction()
    work.append(partition, broker.publisher.check(partition, batch(broker, b"x" * 700)))
    work.ack(source, found.lane, found.first, found.first + 1)
    add(work.gather(queues.route(ns, "", ("target",))), b"out")
    work.append(partition, broker.publisher.check(partition, batch(broker, b"y" * 700)))
    await work.commit()
    disk.mark("end")
    await broker.close()


def kept_after_a_cut(pending: list[Op]) -> list[list[Op]]:
    """Nothing of what is not synced, all of it, and all with one of its sectors missing."""
    sectors = [part for op in pending for part in (op.sectors() if isinstance(op, Write) else [op])]
    return [[], sectors, *(sectors[:at] + sectors[at + 1 :] for at in range(len(sectors)))]


def test_wherever_the_power_is_cut_all_of_a_transaction_is_there_or_nothing() -> None:
    async def seen_after(left: MemoryDisk) -> View:
        broker = await Broker.open(OPTIONS, disk=left)
        try:
            return view(broker, broker.queues.topology.namespace("/"))
        finally:
            await broker.close()

    async def cut_everywhere() -> None:
        disk, again = MemoryDisk(FOLDER), MemoryDisk(FOLDER)
        await transacted(disk)
        begin, end = disk.tape.index(Mark("begin")), disk.tape.index(Mark("end"))
        for recorded in disk.tape[:begin]:
            again.play(recorded)
        seen = [await seen_after(again.after_power_cut())]
        for recorded in disk.tape[begin:end]:
            again.play(recorded)
            for kept in kept_after_a_cut(again.pending):
                seen.append(await seen_after(again.after_power_cut(kept)))
        assert (seen[0], await seen_after(again.after_power_cut())) == (BEFORE, AFTER)
        assert set(seen) == {BEFORE, AFTER}

    asyncio.run(cut_everywhere())
