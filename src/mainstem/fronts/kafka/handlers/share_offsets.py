"""Where share groups are: describe, alter, delete. Only of a group without members can it be changed."""

from __future__ import annotations

from functools import partial

from mainstem.broker.groups import GroupKind
from mainstem.broker.partition import Partition, Topic
from mainstem.fronts.kafka.codes import NONE, code_of, text_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import GroupNotFound, MainstemError, OffsetOutOfRange
from mainstem.wire.kafka.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

NOT_BEGUN = -1
NO_ID = bytes(16)


def _check_share(request: Request, group_id: str) -> None:
    if request.broker.groups.kind(group_id) is not GroupKind.SHARE:
        raise GroupNotFound(f"Group {group_id} is not a share group.")


# --- describe ------------------------------------------------------------------------------------


async def describe(
    request: Request, message: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | Encoded:
    slices, groups = Slices(), []
    for one in message.groups:
        groups.append(await _described(request, one, slices))
        if slices.used_up():
            await slices.rest()
    count = sum(len(topic.partitions) + 1 for group in groups for topic in group.topics) + len(groups)
    return await encoded_if_large(DescribeShareGroupOffsetsResponse(groups=groups), request.version, count)


async def _described(
    request: Request, asked: DescribeShareGroupOffsetsRequestGroup, slices: Slices
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    try:
        request.session.require("describe", "group", group_id)
    except MainstemError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=code_of(error), error_message=text_of(error)
        )
    if asked.topics is None:
        topics = _all_topics(request, group_id)
    else:
        topics = [await _topic(request, group_id, one, slices) for one in asked.topics]
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics)


def _all_topics(request: Request, group_id: str) -> list[DescribeShareGroupOffsetsResponseTopic]:
    known = request.broker.topics.partitions
    begun: dict[Topic, list[Partition]] = {}
    for partition_id in request.broker.shares.partition_ids(group_id):
        partition = known.get(partition_id)
        if partition is not None and request.session.allows("describe", "topic", partition.topic.name):
            begun.setdefault(partition.topic, []).append(partition)
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=topic.name,
            topic_id=topic.id,
            partitions=[_partition(request, group_id, topic, one.index) for one in partitions],
        )
        for topic, partitions in begun.items()
    ]


async def _topic(
    request: Request, group_id: str, asked: DescribeShareGroupOffsetsRequestTopic, slices: Slices
) -> DescribeShareGroupOffsetsResponseTopic:
    try:
        request.session.require("describe", "topic", asked.topic_name)
        topic = request.broker.topics.get(asked.topic_name)
    except MainstemError as error:
        return DescribeShareGroupOffsetsResponseTopic(
            topic_name=asked.topic_name,
            topic_id=NO_ID,
            partitions=await slices.each(partial(_failed, error), asked.partitions),
        )
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.name,
        topic_id=topic.id,
        partitions=await slices.each(partial(_partition, request, group_id, topic), asked.partitions),
    )


def _partition(
    request: Request, group_id: str, topic: Topic, index: int
) -> DescribeShareGroupOffsetsResponsePartition:
    """A partition or a group that is not there has not begun either: Kafka says no more."""
    partition = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
    at = None if partition is None else request.broker.shares.start_offset(group_id, partition)
    if partition is None or at is None:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NOT_BEGUN)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=at[0], leader_epoch=partition.leader_epoch, lag=at[1]
    )


def _failed(error: MainstemError, index: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=NOT_BEGUN, error_code=code_of(error), error_message=text_of(error)
    )


# --- alter ---------------------------------------------------------------------------------------


async def alter(request: Request, message: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    starts: list[tuple[Partition, int]] = []
    try:
        request.session.require("read", "group", message.group_id)
        _check_share(request, message.group_id)
        request.broker.groups.check_empty(message.group_id)
        responses = [_altered(request, topic, starts) for topic in message.topics]
        await request.broker.shares.alter(message.group_id, starts)
    except MainstemError as error:
        return AlterShareGroupOffsetsResponse(error_code=code_of(error), error_message=text_of(error))
    return AlterShareGroupOffsetsResponse(responses=responses)


def _altered(
    request: Request, asked: AlterShareGroupOffsetsRequestTopic, starts: list[tuple[Partition, int]]
) -> AlterShareGroupOffsetsResponseTopic:
    response = AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=NO_ID)
    topics = request.broker.topics
    for one in asked.partitions:
        result = AlterShareGroupOffsetsResponsePartition(partition_index=one.partition_index)
        response.partitions.append(result)
        try:
            request.session.require("read", "topic", asked.topic_name)
            topic = topics.get(asked.topic_name)
            response.topic_id = topic.id
            partition = topics.partition(topic, one.partition_index)
            if not 0 <= one.start_offset <= partition.high_watermark:
                raise OffsetOutOfRange(one.start_offset, partition.log_start, partition.high_watermark)
            starts.append((partition, one.start_offset))
        except MainstemError as error:
            result.error_code, result.error_message = code_of(error), text_of(error)
    return response


# --- delete --------------------------------------------------------------------------------------


async def delete(
    request: Request, message: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    gone: list[int] = []
    try:
        request.session.require("delete", "group", message.group_id)
        _check_share(request, message.group_id)
        request.broker.groups.check_empty(message.group_id)
        responses = [_deleted(request, topic.topic_name, gone) for topic in message.topics]
        await request.broker.shares.forget(message.group_id, gone)
    except MainstemError as error:
        return DeleteShareGroupOffsetsResponse(error_code=code_of(error), error_message=text_of(error))
    return DeleteShareGroupOffsetsResponse(responses=responses)


def _deleted(request: Request, name: str, gone: list[int]) -> DeleteShareGroupOffsetsResponseTopic:
    try:
        request.session.require("read", "topic", name)
        topic = request.broker.topics.get(name)
    except MainstemError as error:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=NO_ID, error_code=code_of(error), error_message=text_of(error)
        )
    gone += [partition.id for partition in topic.partitions]
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.id, error_code=NONE)
