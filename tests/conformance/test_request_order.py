"""Answers come in the order of their requests, whatever takes longer."""

from __future__ import annotations

import time

from raw_kafka import Raw

from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.frames import decode_response, encode_request
from mainstem.wire.kafka.metadata import MetadataRequestTopic
from mainstem.wire.kafka.offsets import ListOffsetsPartition, ListOffsetsTopic
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData

VERSIONS = {ApiKey.PRODUCE: 9, ApiKey.METADATA: 12, ApiKey.LIST_OFFSETS: 7, ApiKey.FETCH: 11}


def requests(topic: str) -> list[tuple[ApiKey, dict[str, object]]]:
    """Produce, look and fetch again and again: each look must see exactly what was produced before it."""
    batch = bytes(encode_batch([Record(0, int(time.time() * 1000), None, b"v")]))
    produce = {
        "acks": -1,
        "timeout_ms": 5000,
        "topic_data": [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])],
    }
    look = {"replica_id": -1, "topics": [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])]}
    fetch = {
        "max_wait_ms": 5,
        "min_bytes": 1 << 20,
        "max_bytes": 1 << 20,
        "topics": [FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=9)])],
    }
    row: list[tuple[ApiKey, dict[str, object]]] = []
    for _ in range(20):
        row += [(ApiKey.PRODUCE, produce)] * 3
        row += [(ApiKey.LIST_OFFSETS, look), (ApiKey.FETCH, fetch), (ApiKey.METADATA, {"topics": []})]
    return row


def test_pipelined_requests_are_answered_in_order_and_see_what_came_before_them(address, topic):
    with Raw(address) as raw:
        raw.ask(
            ApiKey.METADATA, 12, topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True
        )
        row = requests(topic)
        raw.send(
            b"".join(
                encode_request(SPECS[key], VERSIONS[key], number, "raw", SPECS[key].request(**fields))
                for number, (key, fields) in enumerate(row)
            )
        )
        produced = 0
        for number, (key, _) in enumerate(row):
            correlation_id, answer = decode_response(SPECS[key], VERSIONS[key], raw.receive_frame())
            assert correlation_id == number
            if key is ApiKey.PRODUCE:
                (found,) = answer.responses[0].partition_responses
                assert (found.error_code, found.base_offset) == (0, produced)
                produced += 1
            elif key is ApiKey.LIST_OFFSETS:
                assert answer.topics[0].partitions[0].offset == produced
