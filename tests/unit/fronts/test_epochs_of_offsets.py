"""ListOffsets tells the leader epoch of the batch that it found, not that of the present leader."""

from __future__ import annotations

import asyncio

import pytest
from connection_kit import LOG

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition
from mainstem.fronts.kafka.handlers import list_offsets
from mainstem.fronts.kafka.session import Listener, Request, Session
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.wire.kafka.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

T0 = 1_700_000_000_000


async def publish(broker: Broker, partition: Partition, time_ms: int) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    batch = encode_batch([Record(0, time_ms, b"k", b"v")])
    broker.publisher.publish(partition, memoryview(batch), lambda *_: done.set_result(None))
    await done


@pytest.mark.parametrize(
    ("timestamp", "offset", "epoch"),
    [
        (list_offsets.EARLIEST, 0, 0),
        (list_offsets.EARLIEST_LOCAL, 0, 0),
        (T0, 0, 0),
        (T0 + 1, 1, 4),
        (T0 + 2, 2, 7),
        (T0 + 3, -1, -1),
        (list_offsets.MAX_TIMESTAMP, 2, 7),
        (list_offsets.LATEST, 3, 7),
        (list_offsets.LATEST_TIERED, -1, -1),
    ],
)
def test_an_offset_is_told_with_the_epoch_of_its_batch(tmp_path, timestamp, offset, epoch):
    async def run() -> tuple[int, int, int]:
        broker = await Broker.open(BrokerOptions(str(tmp_path), log=LOG, merge=False))
        try:
            (partition,) = (await broker.create_topic("t", 1)).partitions
            for at, reign in enumerate((((0, 0),), ((0, 0), (4, 1)), ((0, 0), (4, 1), (7, 2)))):
                partition.epochs = reign
                await publish(broker, partition, T0 + at)
            session = Session(Listener("kafka", broker, OpenAccess()), "127.0.0.1", ("127.0.0.1", 9092))
            wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            asked = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
            answer = await list_offsets.handle(Request(session, 11, "me"), asked)
            (found,) = answer.topics[0].partitions
            return found.error_code, found.offset, found.leader_epoch
        finally:
            await broker.close()

    assert asyncio.run(run()) == (0, offset, epoch)
