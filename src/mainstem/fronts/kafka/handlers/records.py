"""DeleteRecords: the start of a partition moves up, and what lies below is gone."""

from __future__ import annotations

import asyncio

from mainstem.broker import admin
from mainstem.broker.partition import Partition
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.handlers.topics import on_disk
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import MainstemError, PolicyViolation
from mainstem.wire.kafka.topics import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_NO_OFFSET = -1
# The timeout of a request is meant for other replicas, of which there are none: clients send 0 and expect
# success. The disk gets so long at least.
_DISK_MS = 5000


async def delete(request: Request, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    last: asyncio.Future[None] | None = None
    slices = Slices()
    for topic in message.topics:
        results: list[DeleteRecordsPartitionResult] = []
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index)
            results.append(result)
            try:
                partition = _trimmable(request, topic.name, wanted.partition_index)
                last = admin.trim(request.broker, partition, wanted.offset) or last
                result.low_watermark = partition.log_start
            except MainstemError as error:
                result.error_code, result.low_watermark = code_of(error), _NO_OFFSET
            if slices.used_up():
                await slices.rest()
    late = await on_disk(last, max(message.timeout_ms, _DISK_MS))
    if late is not None:
        for result in (result for topic in response.topics for result in topic.partitions):
            if not result.error_code:
                result.error_code, result.low_watermark = code_of(late), _NO_OFFSET
    return response


def _trimmable(request: Request, name: str, index: int) -> Partition:
    request.session.require("delete", "topic", name)
    topics = request.broker.topics
    partition = topics.partition(topics.get(name), index)
    if partition.topic.policy.compact and not partition.topic.policy.delete:
        raise PolicyViolation(f"topic {name!r} is compacted only: its cleanup.policy deletes nothing")
    return partition
