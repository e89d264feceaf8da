"""A request that names many things lets others have a turn between them, once its time is up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.fronts.kafka import slices
from mainstem.fronts.kafka.handlers import HANDLERS
from mainstem.fronts.kafka.session import Listener, Request, Session
from mainstem.kernel.log.log import LogOptions
from mainstem.wire.kafka import consumer_groups as cg
from mainstem.wire.kafka import group_admin as ga
from mainstem.wire.kafka import group_offsets as go
from mainstem.wire.kafka import groups as gr
from mainstem.wire.kafka import offsets as of
from mainstem.wire.kafka import share_groups as sg
from mainstem.wire.kafka import share_offsets as so
from mainstem.wire.kafka import topics as tp
from mainstem.wire.kafka import transaction_admin as ta
from mainstem.wire.kafka.apis import SPECS

MANY = 100
NAMES = [f"n{number}" for number in range(MANY)]
INDEXES = list(range(MANY))
OFFSETS = [of.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in INDEXES]
EPOCHS = [of.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in INDEXES]
TRIMS = [tp.DeleteRecordsPartition(partition_index=index, offset=0) for index in INDEXES]
FETCHED = go.OffsetFetchRequestTopics(name="t", partition_indexes=INDEXES)
SHARED = so.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=INDEXES)

CASES = [
    (6, gr.FindCoordinatorRequest(coordinator_keys=NAMES)),
    (6, ga.DescribeGroupsRequest(groups=NAMES)),
    (2, ga.DeleteGroupsRequest(groups_names=NAMES)),
    (1, cg.ConsumerGroupDescribeRequest(group_ids=NAMES)),
    (1, sg.ShareGroupDescribeRequest(group_ids=NAMES)),
    (0, ta.DescribeTransactionsRequest(transactional_ids=NAMES)),
    (0, ta.DescribeProducersRequest(topics=[ta.DescribeProducersTopic(name="t", partition_indexes=INDEXES)])),
    (9, go.OffsetFetchRequest(groups=[go.OffsetFetchRequestGroup(group_id="g", topics=[FETCHED])])),
    (9, go.OffsetFetchRequest(groups=[go.OffsetFetchRequestGroup(group_id=n, topics=[]) for n in NAMES])),
    (7, of.ListOffsetsRequest(topics=[of.ListOffsetsTopic(name="t", partitions=OFFSETS)])),
    (4, of.OffsetForLeaderEpochRequest(topics=[of.OffsetForLeaderTopic(topic="t", partitions=EPOCHS)])),
    (2, tp.DeleteRecordsRequest(topics=[tp.DeleteRecordsTopic(name="t", partitions=TRIMS)])),
    (
        1,
        so.DescribeShareGroupOffsetsRequest(
            groups=[so.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[SHARED])]
        ),
    ),
]


@pytest.mark.parametrize(("version", "message"), CASES, ids=lambda case: type(case).__name__)
def test_others_have_a_turn_between_the_parts_of_a_long_request(tmp_path, monkeypatch, version, message):
    monkeypatch.setattr(slices, "SLICE_S", 0)  # time is up at once

    async def run() -> int:
        log = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
        broker = await Broker.open(BrokerOptions(str(tmp_path), log=log))
        await broker.create_topic("t", 2)
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        waiting = asyncio.ensure_future(others())
        try:
            await handle(broker, version, message)
        finally:
            waiting.cancel()
            await broker.close()
        return turns

    assert asyncio.run(run()) >= MANY


async def handle(broker: Broker, version: int, message: Any) -> None:
    session = Session(Listener("kafka", broker, OpenAccess()), "127.0.0.1", ("127.0.0.1", 9092))
    key = next(spec.key for spec in SPECS.values() if spec.request is type(message))
    await HANDLERS[key](Request(session, version, "me"), message)
