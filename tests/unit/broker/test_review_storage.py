"""Ways in which memory and journal could drift apart, found by review: each test failed before its repair."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.admin import delete_topic, refuses_writes
from mainstem.broker.broker import Broker
from mainstem.broker.chores import Chores
from mainstem.broker.groups import CommittedOffset
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition
from mainstem.broker.retention import due_starts
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.places import PlaceTable
from mainstem.model.errors import CorruptFile, DiskFull, OutOfOrderSequence, StorageFailed
from mainstem.model.records import Record, encode_batch

LOG = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
LONG_AGO_MS = 1_000_000_000_000


def with_broker(
    folder: Path, work: Callable[[Broker], Awaitable[None]], failures: list[BaseException] | None = None
) -> None:
    async def run() -> None:
        broker = await Broker.open(
            BrokerOptions(str(folder), log=LOG, merge=False),
            on_failure=None if failures is None else failures.append,
        )
        try:
            await work(broker)
        finally:
            if not failures:
                await broker.close()

    asyncio.run(run())


def batch(sequence: int = -1, producer_id: int = -1, timestamp_ms: int = LONG_AGO_MS) -> memoryview:
    epoch = 0 if producer_id >= 0 else -1
    made = encode_batch(
        [Record(0, timestamp_ms, b"k", b"v", ())],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return memoryview(made)


async def publish(broker: Broker, partition: Partition, data: memoryview) -> None:
    done = asyncio.get_running_loop().create_future()
    broker.publisher.publish(partition, data, done.set_result)
    await done


def fill_disk(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    def refuse(size: int, *, essential: bool = False, frees_space: bool = False) -> None:
        raise DiskFull("no space")

    monkeypatch.setattr(log, "check_room", refuse)


def test_on_a_full_disk_a_refused_change_to_topics_changes_nothing(tmp_path, monkeypatch):
    async def work(broker: Broker) -> None:
        topic = await broker.create_topic("old", configs={"retention.ms": "1"})
        await publish(broker, topic.partitions[0], batch())
        assert not refuses_writes(broker)
        with monkeypatch.context() as full:
            fill_disk(full, broker.store.log)
            assert refuses_writes(broker)
            with pytest.raises(DiskFull):
                await broker.create_topic("new")
            with pytest.raises(DiskFull):
                await delete_topic(broker, topic)
            with pytest.raises(DiskFull):
                await Chores(broker).retention()
        assert list(broker.topics.by_name) == ["old"]
        assert broker.topics.by_id[topic.id] is topic
        assert topic.partitions[0].log_start == 0

    with_broker(tmp_path, work)


def test_a_reader_that_fails_does_not_keep_writers_from_their_acknowledgement(tmp_path):
    async def work(broker: Broker) -> None:
        topic = await broker.create_topic("t")

        def fail() -> None:
            raise OSError(24, "too many open files")

        topic.partitions[0].wait(fail)
        committed = CommittedOffset(topic.id, 0, 7, -1, "", 0)
        async with asyncio.timeout(10):
            await asyncio.gather(
                publish(broker, topic.partitions[0], batch()), broker.groups.commit("g", [committed])
            )
        assert broker.groups.committed("g", topic.id, 0) == committed

    with_broker(tmp_path, work)


def test_what_cannot_be_taken_into_the_state_ends_the_process(tmp_path):
    failures: list[BaseException] = []

    async def work(broker: Broker) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        told = asyncio.Event()

        def fail(_: object) -> None:
            told.set()
            raise KeyError("a bug")

        broker.store.log.append_delta(0, b"", fail)
        await told.wait()
        await asyncio.sleep(0)
        assert isinstance(failures[0], StorageFailed)

    with_broker(tmp_path, work, failures)


def test_a_folder_that_cannot_be_synced_after_a_snapshot_ends_the_process(tmp_path, monkeypatch):
    failures: list[BaseException] = []

    async def work(broker: Broker) -> None:
        def fail(*_: object) -> None:
            raise StorageFailed("the folder could not be synced")

        monkeypatch.setattr(broker.store.log, "add_snapshot", fail)
        with pytest.raises(StorageFailed):
            await broker.store.snapshot()
        assert isinstance(failures[0], StorageFailed)

    with_broker(tmp_path, work, failures)


def test_a_repeat_is_answered_though_its_topic_is_deleted_before_the_original_is_on_disk(tmp_path):
    async def work(broker: Broker) -> None:
        topic = await broker.create_topic("t")
        partition = topic.partitions[0]
        first, second = publish(broker, partition, batch(0, 5)), publish(broker, partition, batch(0, 5))
        async with asyncio.timeout(10):
            await asyncio.gather(first, second, delete_topic(broker, topic))
        assert partition.next_offset == 1

    with_broker(tmp_path, work)


def test_a_producer_of_old_timestamps_is_still_checked_for_gaps_after_a_restart(tmp_path):
    async def write(broker: Broker) -> None:
        topic = await broker.create_topic("t")
        await publish(broker, topic.partitions[0], batch(0, 5))

    async def skip_one(broker: Broker) -> None:
        with pytest.raises(OutOfOrderSequence):
            await publish(broker, broker.topics.get("t").partitions[0], batch(2, 5))

    with_broker(tmp_path, write)
    with_broker(tmp_path, skip_one)


def test_retention_keeps_what_is_written_while_it_looks(tmp_path):
    async def work(broker: Broker) -> None:
        topic = await broker.create_topic("t", configs={"retention.ms": "1000"})
        partition = topic.partitions[0]
        await publish(broker, partition, batch())
        log = broker.store.log

        class Slow:
            """The log, in which a record arrives just after it was searched."""

            def first_at_or_after(self, number: int, timestamp_ms: int) -> None:
                found = log.first_at_or_after(number, timestamp_ms)
                partition.high_watermark += 1
                assert found is None

        now_ms = broker.clock.now_ms()
        assert due_starts(Slow(), [partition], now_ms, no_damage) == [(partition, 1)]  # type: ignore[arg-type]

    with_broker(tmp_path, work)


def test_a_search_by_time_goes_on_though_a_merge_takes_files_away(tmp_path, monkeypatch):
    async def work(broker: Broker) -> None:
        topic = await broker.create_topic("t")
        await publish(broker, topic.partitions[0], batch())
        log, read = broker.store.log, broker.store.log.reader.batches

        def merged_away(*arguments: Any) -> Any:
            monkeypatch.setattr(log.reader, "batches", read)
            log._tables = (*log._tables[:-1], log._tables[-1])
            raise CorruptFile("files/1.journal", 0, "a file that is read from is missing")

        for search in (
            lambda p: broker.reading.offset_for_time(p, 0, 1),
            lambda p: broker.reading.max_timestamp(p, 1),
        ):
            monkeypatch.setattr(log.reader, "batches", merged_away)
            log._tables = (PlaceTable(99), *log._tables)  # so that a copy is another tuple
            assert search(topic.partitions[0]) == (0, LONG_AGO_MS)

    with_broker(tmp_path, work)


def no_damage(partition: Partition, error: CorruptFile) -> None:
    raise error
