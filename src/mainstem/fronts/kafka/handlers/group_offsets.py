"""How far groups have read: commit, fetch, delete.

Topics are named by id from version 10 on, by name before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial

from mainstem.broker.groups import ClassicState, ClassicView, CommittedOffset
from mainstem.broker.partition import Topic
from mainstem.fronts.kafka.codes import NONE, code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import MOST_IN_ONE_TURN, Slices
from mainstem.model.errors import (
    GroupSubscribedToTopic,
    InvalidRequest,
    MainstemError,
    OffsetsUnstable,
    UnknownTopic,
)
from mainstem.wire.kafka.codec import decoder
from mainstem.wire.kafka.consumer_protocol import ConsumerProtocolSubscription
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

IDS_SINCE = 10
FETCH_MANY_SINCE = 8
FETCH_ERROR_SINCE = 2  # a field for an error of the whole group
NO_OFFSET = -1
NO_ID = bytes(16)
_SUBSCRIPTION_VERSION = struct.Struct(">h")
_NEWEST_SUBSCRIPTION = 3


# --- commit --------------------------------------------------------------------------------------


async def commit(request: Request, message: OffsetCommitRequest) -> OffsetCommitResponse | Encoded:
    offsets: list[CommittedOffset] = []
    codes: list[list[int]] = []
    refused = NONE
    try:
        request.session.require("read", "group", message.group_id)
        check_count(len(topic.partitions) for topic in message.topics)
        request.broker.groups.check_commit(
            message.group_id,
            message.member_id,
            message.group_instance_id,
            message.generation_id_or_member_epoch,
        )
        codes = [_check_topic(request, topic, offsets) for topic in message.topics]
        await request.broker.groups.commit(message.group_id, offsets)
    except MainstemError as error:
        refused = code_of(error)
    slices, response, count = Slices(), OffsetCommitResponse(), 0
    for number, topic in enumerate(message.topics):
        of_topic = [refused] * len(topic.partitions) if refused else codes[number]
        told = await slices.each(_told, zip(topic.partitions, of_topic, strict=True))
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=told)
        )
        count += len(told) + 1
    return await encoded_if_large(response, request.version, count)


def check_count(counts: Iterable[int]) -> None:
    """By topic, how many partitions a request names that are checked and journalled in one turn."""
    if (count := sum(counts)) > MOST_IN_ONE_TURN:
        raise InvalidRequest(f"{count} partitions in one request; {MOST_IN_ONE_TURN} are allowed")


def _told(partition_and_code: tuple[OffsetCommitRequestPartition, int]) -> OffsetCommitResponsePartition:
    wanted, code = partition_and_code
    return OffsetCommitResponsePartition(partition_index=wanted.partition_index, error_code=code)


def _check_topic(
    request: Request, wanted: OffsetCommitRequestTopic, offsets: list[CommittedOffset]
) -> list[int]:
    """A code per partition; what may be committed is added to `offsets`."""
    try:
        topic = _named(request, wanted.name, wanted.topic_id, "read")
    except MainstemError as error:
        return [code_of(error)] * len(wanted.partitions)
    codes: list[int] = []
    for one in wanted.partitions:
        try:
            offsets.append(_committed(request, topic, one))
            codes.append(NONE)
        except MainstemError as error:
            codes.append(code_of(error))
    return codes


def _named(request: Request, name: str, topic_id: bytes, operation: str) -> Topic:
    topics, session = request.broker.topics, request.session
    if request.version < IDS_SINCE:
        session.require(operation, "topic", name)
        return topics.get(name)
    topic = topics.get_by_id(topic_id)
    session.require(operation, "topic", topic.name)
    return topic


def _committed(request: Request, topic: Topic, wanted: OffsetCommitRequestPartition) -> CommittedOffset:
    groups = request.broker.groups
    request.broker.topics.partition(topic, wanted.partition_index)
    metadata = wanted.committed_metadata or ""
    groups.check_metadata(metadata)
    return CommittedOffset(
        topic.id,
        wanted.partition_index,
        wanted.committed_offset,
        wanted.committed_leader_epoch,
        metadata,
        groups.now_ms(),
    )


# --- fetch ---------------------------------------------------------------------------------------


async def fetch(request: Request, message: OffsetFetchRequest) -> OffsetFetchResponse | Encoded:
    slices, stable = Slices(), message.require_stable
    if request.version >= FETCH_MANY_SINCE:
        groups = []
        whole: set[str] = set()
        for group in message.groups:
            # All of a group is told once: it may be much, and to ask takes few bytes.
            if group.topics is not None or group.group_id not in whole:
                groups.append(await _fetch_group(request, group, stable, slices))
            if group.topics is None:
                whole.add(group.group_id)
            if slices.used_up():
                await slices.rest()
        count = len(groups) + sum(_count(group) for group in groups)
        return await encoded_if_large(OffsetFetchResponse(groups=groups), request.version, count)
    topics = message.topics
    only = OffsetFetchRequestGroup(
        group_id=message.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics],
    )
    found = await _fetch_group(request, only, stable, slices)
    if found.error_code and request.version < FETCH_ERROR_SINCE:
        found.topics = [await _all_failed(topic, found.error_code, slices) for topic in only.topics or ()]
    response = OffsetFetchResponse(error_code=found.error_code)
    for topic in found.topics:
        partitions = await slices.each(_of_one_group, topic.partitions)
        response.topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return await encoded_if_large(response, request.version, _count(found))


def _count(group: OffsetFetchResponseGroup) -> int:
    return sum(len(topic.partitions) + 1 for topic in group.topics)


def _of_one_group(one: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=one.partition_index,
        committed_offset=one.committed_offset,
        committed_leader_epoch=one.committed_leader_epoch,
        metadata=one.metadata,
        error_code=one.error_code,
    )


async def _fetch_group(
    request: Request, asked: OffsetFetchRequestGroup, stable: bool, slices: Slices
) -> OffsetFetchResponseGroup:
    group_id = asked.group_id
    try:
        request.session.require("describe", "group", group_id)
        request.broker.groups.check_fetch(group_id, asked.member_id, asked.member_epoch)
    except MainstemError as error:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=code_of(error))
    if asked.topics is None:
        topics = await _fetch_all(request, group_id, stable, slices)
    else:
        topics = []
        for topic in asked.topics:
            topics.append(await _fetch_topic(request, group_id, topic, stable, slices))
            if slices.used_up():
                await slices.rest()
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


async def _fetch_all(
    request: Request, group_id: str, stable: bool, slices: Slices
) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[Topic, list[OffsetFetchResponsePartitions]] = {}
    topics = request.broker.topics.by_id
    for at in list(request.broker.groups.all_committed(group_id)):
        topic = topics.get(at.topic_id)
        if topic is not None and request.session.allows("describe", "topic", topic.name):
            found = _fetch_partition(request, group_id, topic, stable, at.partition)
            by_topic.setdefault(topic, []).append(found)
        if slices.used_up():
            await slices.rest()
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.id,
            partitions=sorted(found, key=lambda one: one.partition_index),
        )
        for topic, found in by_topic.items()
    ]


async def _fetch_topic(
    request: Request, group_id: str, asked: OffsetFetchRequestTopics, stable: bool, slices: Slices
) -> OffsetFetchResponseTopics:
    code = NONE
    try:
        topic = _named(request, asked.name, asked.topic_id, "describe")
    except UnknownTopic:  # nothing was ever committed for it
        code = NONE
    except MainstemError as error:
        code = code_of(error)
    else:
        return OffsetFetchResponseTopics(
            name=asked.name,
            topic_id=asked.topic_id,
            partitions=await slices.each(
                partial(_fetch_partition, request, group_id, topic, stable), asked.partition_indexes
            ),
        )
    return await _all_failed(asked, code, slices)


async def _all_failed(
    asked: OffsetFetchRequestTopics, code: int, slices: Slices
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=await slices.each(partial(_nothing, code), asked.partition_indexes),
    )


def _nothing(code: int, index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )


def _fetch_partition(
    request: Request, group_id: str, topic: Topic, stable: bool, index: int
) -> OffsetFetchResponsePartitions:
    groups = request.broker.groups
    if not 0 <= index < len(topic.partitions):
        return _nothing(NONE, index)
    if stable and groups.is_unstable(group_id, topic.id, index):
        return _nothing(code_of(OffsetsUnstable(group_id)), index)
    at = groups.committed(group_id, topic.id, index)
    if at is None:
        return _nothing(NONE, index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=at.offset,
        committed_leader_epoch=at.leader_epoch,
        metadata=at.metadata,
    )


# --- delete --------------------------------------------------------------------------------------


async def delete(request: Request, message: OffsetDeleteRequest) -> OffsetDeleteResponse:
    group_id, groups = message.group_id, request.broker.groups
    keys: list[tuple[bytes, int]] = []
    response = OffsetDeleteResponse()
    try:
        request.session.require("delete", "group", group_id)
        check_count(len(topic.partitions) for topic in message.topics)
        groups.check_offsets_delete(group_id)
        for topic in message.topics:
            indexes = [one.partition_index for one in topic.partitions]
            codes = _check_deletes(request, group_id, topic.name, indexes, keys)
            response.topics.append(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(partition_index=index, error_code=code)
                        for index, code in zip(indexes, codes, strict=True)
                    ],
                )
            )
        await groups.delete_offsets(group_id, keys)
    except MainstemError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    return response


def _check_deletes(
    request: Request, group_id: str, topic_name: str, indexes: Iterable[int], keys: list[tuple[bytes, int]]
) -> list[int]:
    topics, codes = request.broker.topics, list[int]()
    refused: int | None = None  # for what any of its partitions would be; looked up for the first that exists
    for index in indexes:
        try:
            request.session.require("read", "topic", topic_name)
            partition = topics.partition(topics.get(topic_name), index)
            if refused is None:
                refused = _refusal(request, group_id, topic_name)
            if refused == NONE:
                keys.append((partition.topic.id, index))
            codes.append(refused)
        except MainstemError as error:
            codes.append(code_of(error))
    return codes


def _refusal(request: Request, group_id: str, topic_name: str) -> int:
    try:
        request.broker.groups.check_offsets_delete(group_id, topic_name)
        _refuse_if_read(request, group_id, topic_name)
    except MainstemError as error:
        return code_of(error)
    return NONE


def _refuse_if_read(request: Request, group_id: str, topic_name: str) -> None:
    """The members of a classic group say what they read in bytes that only their protocol can tell."""
    view = request.broker.groups.describe(group_id)
    if not isinstance(view, ClassicView) or view.state is ClassicState.EMPTY:
        return
    settled = view.state is ClassicState.STABLE
    if not settled or any(topic_name in _subscribed(member.metadata) for member in view.members):
        raise GroupSubscribedToTopic(topic_name)


def _subscribed(metadata: bytes) -> list[str]:
    try:
        (version,) = _SUBSCRIPTION_VERSION.unpack_from(metadata)
        decode = decoder(ConsumerProtocolSubscription, max(0, min(version, _NEWEST_SUBSCRIPTION)))
        subscription, _ = decode(metadata, _SUBSCRIPTION_VERSION.size)
    except (struct.error, InvalidRequest):
        return []
    assert isinstance(subscription, ConsumerProtocolSubscription)
    return subscription.topics
