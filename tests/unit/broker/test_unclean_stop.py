"""Offsets that an unclean stop skips, in topics that are acknowledged early, are a batch without records."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from mainstem.broker import admin
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition
from mainstem.broker.retention import due_starts
from mainstem.broker.store import Section
from mainstem.broker.topics import EpochsBegun
from mainstem.kernel.log.compact import Compaction
from mainstem.kernel.log.jobs import CompactOrder
from mainstem.kernel.log.log import LogOptions
from mainstem.model.batch import crc_matches, read_header
from mainstem.model.errors import CorruptFile, InvalidRecord
from mainstem.model.logs import FACTS
from mainstem.model.record import Record
from mainstem.model.records import decode_records, empty_batch, encode_batch

LOG = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
EARLY = {"durability": "os"}
BLOCK_END = 1_000_001  # of the block that one record at offset 0 reserves


def play(folder: Path, *acts: Callable[[Broker], Awaitable[None]], clean: bool = True) -> None:
    """Each act on a broker of its own, over the same data; unless `clean` it is never closed for the next."""

    async def run() -> None:
        at = folder / "0"
        for number, act in enumerate(acts, 1):
            broker = await Broker.open(BrokerOptions(str(at), log=LOG))
            try:
                await act(broker)
                if not clean:
                    # Where files are cared for, so that nobody does meanwhile.
                    await broker.store.in_background(partial(shutil.copytree, at, folder / str(number)))
                    at = folder / str(number)
            finally:
                await broker.close()

    asyncio.run(run())


async def begin(broker: Broker) -> None:
    topic = await broker.create_topic("t", 1, EARLY)
    await publish(broker, topic.partitions[0])


async def publish(broker: Broker, partition: Partition) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    batch = encode_batch([Record(0, broker.clock.now_ms(), b"k", b"v")])
    broker.publisher.publish(partition, memoryview(batch), lambda *_: done.set_result(None))
    await done


def only(broker: Broker) -> Partition:
    (partition,) = broker.topics.get("t").partitions
    return partition


def stored(broker: Broker) -> list[tuple[int, int, int, int]]:
    """First and last offset, number of records and leader epoch of each batch."""
    partition, at = only(broker), only(broker).log_start
    found = []
    while batches := broker.reading.batches(partition.id, at, 1 << 20, partition.high_watermark):
        for batch in batches:
            header = read_header(batch)
            found.append((header.base_offset, header.last_offset, header.record_count, header.leader_epoch))
            at = header.last_offset + 1
    return found


def test_a_batch_without_records_is_sound_and_says_how_far_it_reaches():
    batch = empty_batch(7, 1_000_000, 3)
    header = read_header(batch)
    assert crc_matches(batch)
    assert decode_records(batch) == []
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (7, 1_000_000, 3)
    assert (header.max_timestamp_ms, header.producer_id, header.record_count) == (-1, -1, 0)
    with pytest.raises(InvalidRecord):
        empty_batch(0, 1 << 31, 0)


def test_it_belongs_to_the_epoch_that_ended_and_is_there_once(tmp_path):
    before = [(0, 0, 1, 0), (1, BLOCK_END - 1, 0, 0)]

    async def look(broker: Broker) -> None:
        assert stored(broker) == before
        assert only(broker).epochs == ((0, 0), (1, BLOCK_END))
        assert only(broker).high_watermark == only(broker).next_offset == BLOCK_END

    async def write(broker: Broker) -> None:
        await publish(broker, only(broker))

    async def look_again(broker: Broker) -> None:
        end = only(broker).high_watermark
        assert stored(broker) == [*before, (BLOCK_END, BLOCK_END, 1, 1), (BLOCK_END + 1, end - 1, 0, 1)]
        assert only(broker).epochs == ((0, 0), (1, BLOCK_END), (2, end))

    play(tmp_path, begin, look, look, write, look_again, look_again, clean=False)


def test_a_hole_that_an_earlier_version_left_is_filled(tmp_path):
    async def as_before(broker: Broker) -> None:
        await begin(broker)
        begun = EpochsBegun(only(broker).id, ((0, 0), (1, BLOCK_END)))
        await broker.store.commit(Section.TOPICS, begun)
        broker.topics.apply(begun)

    async def look(broker: Broker) -> None:
        assert stored(broker) == [(0, 0, 1, 0), (1, BLOCK_END - 1, 0, 0)]

    play(tmp_path, as_before, look, look)


def test_nothing_is_filled_where_everything_was_deleted(tmp_path):
    async def as_before(broker: Broker) -> None:
        await begin(broker)
        begun = EpochsBegun(only(broker).id, ((0, 0), (1, BLOCK_END)))
        await broker.store.commit(Section.TOPICS, begun)
        broker.topics.apply(begun)
        trimmed = admin.trim(broker, only(broker), -1)
        assert trimmed is not None
        await trimmed

    async def look(broker: Broker) -> None:
        assert stored(broker) == []
        assert broker.store.log.next_offset(only(broker).id) == 1

    play(tmp_path, as_before, look)


def test_retention_goes_by_the_records_around_it(tmp_path):
    async def look(broker: Broker) -> None:
        partition, now_ms = only(broker), broker.clock.now_ms()
        week_ms = partition.topic.policy.retention_ms
        log = broker.store.log
        assert due_starts(log, [partition], now_ms, no_damage) == []
        assert due_starts(log, [partition], now_ms + week_ms + 1000, no_damage) == [(partition, BLOCK_END)]
        assert broker.reading.offset_for_time(partition, now_ms + 1000, BLOCK_END) is None

    play(tmp_path, begin, look, clean=False)


def test_compaction_takes_it_once_something_follows():
    record = [Record(0, 500, b"k", b"v")]
    hole, later = bytes(empty_batch(1, 9, 0)), bytes(encode_batch(record, base_offset=10))
    first = bytes(encode_batch([Record(0, 500, b"j", b"v")]))

    def compacted(*batches: bytes) -> list[bytes]:
        work = Compaction(CompactOrder(1 << 60, 1000, 0, True), 1_000_000, 100)
        work.study(lambda: iter(batches))
        return [bytes(left) for one in batches if (left := work.clean(one)) is not None]

    assert compacted(first, hole) == [first, hole]
    assert compacted(first, hole, later) == [first, later]


def test_the_log_tells_when_a_topic_begins_to_be_acknowledged_early(tmp_path, caplog):
    async def act(broker: Broker) -> None:
        with caplog.at_level(logging.WARNING):
            await broker.create_topic("plain")
            assert not told()
            await broker.create_topic("one", 1, EARLY)
            await admin.create_topic(broker, broker.plan_topic("two", 1, EARLY))
            plain = broker.topics.get("plain")
            for configs in (EARLY, {**EARLY, "retention.ms": "1"}, {}):
                await admin.configure_topic(broker, plain, configs)
            assert told() == ["one", "two", "plain"]

    def told() -> list[str]:
        said = [one for one in caplog.records if "acknowledged before it is on disk" in one.getMessage()]
        return [getattr(one, FACTS)["topic"] for one in said]

    play(tmp_path, act)


def no_damage(partition: Partition, error: CorruptFile) -> None:
    raise error
