"""How far groups have read: commit, fetch, delete.

Topics are named by id from version 10 on, by name before.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from mainstem.broker.groups import ClassicState, ClassicView, CommittedOffset
from mainstem.broker.partition import Topic
from mainstem.fronts.kafka.codes import NONE, code_of
from mainstem.fronts.kafka.session import Request
from mainstem.model.errors import (
    GroupSubscribedToTopic,
    InvalidRequest,
    MainstemError,
    NotAuthorized,
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


async def commit(request: Request, message: OffsetCommitRequest) -> OffsetCommitResponse:
    offsets: list[CommittedOffset] = []
    codes: list[list[int]] = []
    refused = NONE
    try:
        request.session.require("read", "group", message.group_id)
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
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=wanted.partition_index,
                        error_code=refused or codes[number][place],
                    )
                    for place, wanted in enumerate(topic.partitions)
                ],
            )
            for number, topic in enumerate(message.topics)
        ]
    )


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


async def fetch(request: Request, message: OffsetFetchRequest) -> OffsetFetchResponse:
    if request.version >= FETCH_MANY_SINCE:
        return OffsetFetchResponse(
            groups=[_fetch_group(request, group, message.require_stable) for group in message.groups]
        )
    topics = message.topics
    only = OffsetFetchRequestGroup(
        group_id=message.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics],
    )
    found = _fetch_group(request, only, message.require_stable)
    if found.error_code and request.version < FETCH_ERROR_SINCE:
        found.topics = [_all_failed(topic, found.error_code) for topic in only.topics or ()]
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in found.topics
        ],
    )


def _fetch_group(request: Request, asked: OffsetFetchRequestGroup, stable: bool) -> OffsetFetchResponseGroup:
    group_id = asked.group_id
    try:
        request.session.require("describe", "group", group_id)
        request.broker.groups.check_fetch(group_id, asked.member_id, asked.member_epoch)
    except MainstemError as error:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=code_of(error))
    if asked.topics is None:
        return OffsetFetchResponseGroup(group_id=group_id, topics=_fetch_all(request, group_id, stable))
    return OffsetFetchResponseGroup(
        group_id=group_id, topics=[_fetch_topic(request, group_id, topic, stable) for topic in asked.topics]
    )


def _fetch_all(request: Request, group_id: str, stable: bool) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[bytes, list[OffsetFetchResponsePartitions]] = {}
    topics = request.broker.topics.by_id
    for at in request.broker.groups.all_committed(group_id):
        topic = topics.get(at.topic_id)
        if topic is None or not request.session.allows("describe", "topic", topic.name):
            continue
        by_topic.setdefault(at.topic_id, []).append(
            _fetch_partition(request, group_id, topic, at.partition, stable)
        )
    return [
        OffsetFetchResponseTopics(
            name=topics[topic_id].name,
            topic_id=topic_id,
            partitions=sorted(found, key=lambda one: one.partition_index),
        )
        for topic_id, found in by_topic.items()
    ]


def _fetch_topic(
    request: Request, group_id: str, asked: OffsetFetchRequestTopics, stable: bool
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
            partitions=[
                _fetch_partition(request, group_id, topic, index, stable) for index in asked.partition_indexes
            ],
        )
    return _all_failed(asked, code)


def _all_failed(asked: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[_nothing(index, code) for index in asked.partition_indexes],
    )


def _nothing(index: int, code: int = NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )


def _fetch_partition(
    request: Request, group_id: str, topic: Topic, index: int, stable: bool
) -> OffsetFetchResponsePartitions:
    groups = request.broker.groups
    if not 0 <= index < len(topic.partitions):
        return _nothing(index)
    if stable and groups.is_unstable(group_id, topic.id, index):
        return _nothing(index, code_of(OffsetsUnstable(group_id)))
    at = groups.committed(group_id, topic.id, index)
    if at is None:
        return _nothing(index)
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
    for index in indexes:
        try:
            request.session.require("read", "topic", topic_name)
            partition = topics.partition(topics.get(topic_name), index)
            request.broker.groups.check_offsets_delete(group_id, topic_name)
            _refuse_if_read(request, group_id, topic_name)
            keys.append((partition.topic.id, index))
            codes.append(NONE)
        except NotAuthorized as error:
            codes.append(code_of(error))
        except MainstemError as error:
            codes.append(code_of(error))
    return codes


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
