"""Consumer groups seen from outside: who is in them, how far they have read, and setting that."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mainstem.client import codes
from mainstem.client.client import NOBODY, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import GroupNotFound, InvalidRequest
from mainstem.wire.kafka.apis import ApiKey
from mainstem.wire.kafka.codec import decode
from mainstem.wire.kafka.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from mainstem.wire.kafka.consumer_protocol import ConsumerProtocolAssignment
from mainstem.wire.kafka.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from mainstem.wire.kafka.groups import FindCoordinatorRequest, FindCoordinatorResponse
from mainstem.wire.kafka.share_groups import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

GROUP = 0  # kind of coordinator
DEAD = "Dead"  # what DescribeGroups says of a group that is not there


@dataclass(frozen=True, slots=True)
class GroupListing:
    id: str
    state: str
    kind: str  # classic, consumer, share; empty: an old broker did not say


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    client_id: str
    host: str
    instance_id: str | None
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Group:
    id: str
    state: str
    protocol: str  # the assignor
    members: tuple[Member, ...]
    is_share: bool = False


def list_groups(client: Client) -> list[GroupListing]:
    answer = client.ask(ListGroupsRequest(), ListGroupsResponse)
    codes.check(answer.error_code, "groups")
    found = [GroupListing(one.group_id, one.group_state, one.group_type) for one in answer.groups]
    return sorted(found, key=lambda group: group.id)


def describe_group(client: Client, group_id: str) -> Group:
    """Of the newer protocol, a share group, or of the older; GroupNotFound when it is not there."""
    node = coordinator(client, group_id)
    if client.connection(node).offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        newer = client.ask(
            ConsumerGroupDescribeRequest([group_id]), ConsumerGroupDescribeResponse, node=node
        ).groups[0]
        if newer.error_code == 0:
            members = tuple(
                Member(
                    one.member_id,
                    one.client_id,
                    one.client_host,
                    one.instance_id,
                    tuple(
                        TopicPartition(topic.topic_name, partition)
                        for topic in one.assignment.topic_partitions
                        for partition in topic.partitions
                    ),
                )
                for one in newer.members
            )
            return Group(group_id, newer.group_state, newer.assignor_name, members)
        if newer.error_code != codes.GROUP_NOT_FOUND:  # which also says "of the older protocol"
            codes.check(newer.error_code, f"group {group_id!r}", newer.error_message)
    if client.connection(node).offers(ApiKey.SHARE_GROUP_DESCRIBE):
        shared = client.ask(
            ShareGroupDescribeRequest([group_id]), ShareGroupDescribeResponse, node=node
        ).groups[0]
        if shared.error_code == 0:
            return _share(shared)
    (older,) = client.ask(DescribeGroupsRequest([group_id]), DescribeGroupsResponse, node=node).groups
    if older.error_code == codes.GROUP_NOT_FOUND or (not older.error_code and older.group_state == DEAD):
        raise GroupNotFound(f"there is no group {group_id!r}")
    codes.check(older.error_code, f"group {group_id!r}", older.error_message)
    return _classic(older)


def _share(group: DescribedShareGroup) -> Group:
    members = tuple(
        Member(
            one.member_id,
            one.client_id,
            one.client_host,
            None,
            tuple(
                TopicPartition(topic.topic_name, partition)
                for topic in one.assignment.topic_partitions
                for partition in topic.partitions
            ),
        )
        for one in group.members
    )
    return Group(group.group_id, group.group_state, group.assignor_name, members, is_share=True)


def _classic(group: DescribedGroup) -> Group:
    members = tuple(
        Member(
            one.member_id,
            one.client_id,
            one.client_host,
            one.group_instance_id,
            _assigned(bytes(one.member_assignment)) if group.protocol_type == "consumer" else (),
        )
        for one in group.members
    )
    return Group(group.group_id, group.group_state, group.protocol_data, members)


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """The opaque bytes of a member's assignment, which are the consumers' own affair and may be anything."""
    if not data:
        return ()
    try:
        (version,) = struct.unpack_from(">h", data)
        assignment = decode(ConsumerProtocolAssignment, min(max(version, 0), 3), data, 2)
    except (struct.error, InvalidRequest):
        return ()
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )


def committed_offsets(client: Client, group_id: str) -> dict[TopicPartition, int]:
    """Everything the group has committed; empty for a group that is not there."""
    request = OffsetFetchRequest(group_id, None, [OffsetFetchRequestGroup(group_id, topics=None)])
    answer = client.ask(request, OffsetFetchResponse, node=coordinator(client, group_id))
    found: list[tuple[str, Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions]]]
    if answer.groups:
        codes.check(answer.groups[0].error_code, f"group {group_id!r}")
        found = [(topic.name, topic.partitions) for topic in answer.groups[0].topics]
    else:
        codes.check(answer.error_code, f"group {group_id!r}")
        found = [(topic.name, topic.partitions) for topic in answer.topics]
    offsets: dict[TopicPartition, int] = {}
    for name, partitions in found:
        for one in partitions:
            place = TopicPartition(name, one.partition_index)
            codes.check(one.error_code, f"group {group_id!r}, {place}")
            if one.committed_offset >= 0:
                offsets[place] = one.committed_offset
    return offsets


def commit_offsets(client: Client, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set how far a group has read; refused while it has members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for place, offset in offsets.items():
        topics.setdefault(place.topic, []).append(
            OffsetCommitRequestPartition(place.partition, offset, committed_metadata="")
        )
    request = OffsetCommitRequest(
        group_id, topics=[OffsetCommitRequestTopic(name, partitions=parts) for name, parts in topics.items()]
    )
    answer = client.ask(request, OffsetCommitResponse, node=coordinator(client, group_id))
    for topic in answer.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.partition_index)
            codes.check(one.error_code, f"group {group_id!r}, {place}")


def delete_offsets(client: Client, group_id: str, places: Sequence[TopicPartition]) -> None:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(OffsetDeleteRequestPartition(place.partition))
    request = OffsetDeleteRequest(
        group_id, [OffsetDeleteRequestTopic(name, parts) for name, parts in topics.items()]
    )
    answer = client.ask(request, OffsetDeleteResponse, node=coordinator(client, group_id))
    codes.check(answer.error_code, f"group {group_id!r}")
    for topic in answer.topics:
        for one in topic.partitions:
            codes.check(
                one.error_code, f"group {group_id!r}, {TopicPartition(topic.name, one.partition_index)}"
            )


def delete_group(client: Client, group_id: str) -> None:
    request = DeleteGroupsRequest([group_id])
    (result,) = client.ask(
        request, DeleteGroupsResponse, node=coordinator(client, group_id), again=False
    ).results
    if result.error_code == codes.GROUP_NOT_FOUND:
        raise GroupNotFound(f"there is no group {group_id!r}")
    why = "it has members; stop them first" if result.error_code == codes.GROUP_NOT_EMPTY else None
    codes.check(result.error_code, f"group {group_id!r}", why)


def coordinator(client: Client, group_id: str) -> int:
    """The node that keeps a group."""

    def look() -> int:
        request = FindCoordinatorRequest(group_id, GROUP, [group_id])
        answer = client.ask(request, FindCoordinatorResponse)
        if not answer.coordinators:
            codes.check(answer.error_code, f"group {group_id!r}", answer.error_message)
            return answer.node_id
        (found,) = answer.coordinators
        codes.check(found.error_code, f"group {group_id!r}", found.error_message)
        return found.node_id

    node = client.while_moving(look)
    if not client.knows(node):
        client.cluster([])
    return node if client.knows(node) else NOBODY
