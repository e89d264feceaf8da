"""Retention beside open transactions, and damage in several partitions."""

import asyncio
from pathlib import Path
from typing import Any

from mainstem.broker import chores
from mainstem.broker.broker import Broker
from mainstem.broker.chores import Chores
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition
from mainstem.kernel.log.log import LogOptions
from mainstem.model.errors import CorruptFile
from mainstem.model.records import Record, encode_batch

LOG = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)


async def publish(broker: Broker, partition: Partition, **fields: Any) -> None:
    done = asyncio.get_running_loop().create_future()
    data = memoryview(encode_batch([Record(0, 1_000_000_000_000, b"k", b"v", ())], **fields))
    broker.publisher.publish(partition, data, done.set_result, lambda *_: None)
    await done


def test_no_look_is_taken_behind_an_open_transaction(tmp_path: Path, monkeypatch) -> None:
    asked: list[dict[int, int]] = []
    due_starts = chores.due_starts

    def spy(*arguments: Any) -> Any:
        asked.append(arguments[4])
        return due_starts(*arguments)

    monkeypatch.setattr(chores, "due_starts", spy)
    monkeypatch.setattr(chores, "PARTITIONS_AT_ONCE", 1)

    async def run() -> None:
        broker = await Broker.open(BrokerOptions(str(tmp_path), log=LOG, merge=False))
        topic = await broker.create_topic("t", partitions=2, configs={"retention.ms": "1"})
        free, held = topic.partitions
        await publish(broker, free)
        await publish(broker, held)
        await publish(broker, held, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        await publish(broker, held)
        assert await Chores(broker).retention() == 2
        assert asked == [{held.id: 1}]
        assert (free.log_start, held.log_start) == (1, 1)
        await broker.close()

    asyncio.run(run())


def test_each_damaged_partition_is_named(tmp_path: Path, caplog) -> None:
    async def run() -> None:
        broker = await Broker.open(BrokerOptions(str(tmp_path), log=LOG, merge=False))
        topic = await broker.create_topic("t", partitions=2)
        work = Chores(broker)
        for partition in topic.partitions * 2:
            work._tell_damage(partition, CorruptFile("a file", 7, "bad"))
        await broker.close()

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records]
    told = [line for line in lines if line.startswith("retention comes upon damage")]
    assert [f"partition={number} " in line for number, line in enumerate(told)] == [True, True]
