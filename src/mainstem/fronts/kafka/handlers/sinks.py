"""PublishStaged: Mainstem's own API, for sinks that write exactly once."""

from __future__ import annotations

from mainstem.broker.partition import Partition
from mainstem.broker.sinks import STAGING
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.session import Request
from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.wire.kafka.sinks import PublishStagedRequest, PublishStagedResponse


async def publish(request: Request, message: PublishStagedRequest) -> PublishStagedResponse:
    try:
        wanted = _wanted(request, message)
        done = await request.broker.sinks.publish(
            message.sink, message.batch_id, message.records, wanted, may_skip=message.may_skip
        )
    except MainstemError as error:
        return PublishStagedResponse(error_code=code_of(error), error_message=str(error))
    return PublishStagedResponse(replayed=not done)


def _wanted(request: Request, message: PublishStagedRequest) -> dict[Partition, list[tuple[int, int]]]:
    # A sink is like a transactional id: who may write under its name decides what it has written.
    request.session.require("write", "transactional_id", message.sink)
    request.session.require("write", "topic", STAGING)
    topics = request.broker.topics
    wanted: dict[Partition, list[tuple[int, int]]] = {}
    for topic in message.topics:
        request.session.require("write", "topic", topic.name)
        found = topics.get(topic.name)
        for one in topic.partitions:
            partition = topics.partition(found, one.index)
            if partition in wanted:
                raise InvalidRequest(f"{topic.name} partition {one.index} is named twice")
            wanted[partition] = [(batch.offset, batch.crc) for batch in one.batches]
    return wanted
