"""Share groups seen from outside: what they are not done with, and where they begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.client import codes
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.groups import coordinator
from mainstem.wire.kafka.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)


@dataclass(frozen=True, slots=True)
class Progress:
    start: int  # all below is done with
    lag: int  # how much is not, from there to the end; -1: the broker does not say


def share_progress(client: Client, group_id: str) -> dict[TopicPartition, Progress]:
    """Of the partitions that the group has begun with."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    (group,) = client.ask(
        request, DescribeShareGroupOffsetsResponse, node=coordinator(client, group_id)
    ).groups
    codes.check(group.error_code, f"group {group_id!r}", group.error_message)
    found: dict[TopicPartition, Progress] = {}
    for topic in group.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.topic_name, one.partition_index)
            codes.check(one.error_code, f"group {group_id!r}, {place}", one.error_message)
            if one.start_offset >= 0:
                found[place] = Progress(one.start_offset, one.lag)
    return found


def start_share_group(client: Client, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Let it read from these offsets on, whatever it had done with; refused while it has members."""
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for place, offset in offsets.items():
        topics.setdefault(place.topic, []).append(
            AlterShareGroupOffsetsRequestPartition(place.partition, offset)
        )
    request = AlterShareGroupOffsetsRequest(
        group_id, [AlterShareGroupOffsetsRequestTopic(name, parts) for name, parts in topics.items()]
    )
    answer = client.ask(request, AlterShareGroupOffsetsResponse, node=coordinator(client, group_id))
    codes.check(answer.error_code, f"group {group_id!r}", answer.error_message)
    for topic in answer.responses:
        for one in topic.partitions:
            place = TopicPartition(topic.topic_name, one.partition_index)
            codes.check(one.error_code, f"group {group_id!r}, {place}", one.error_message)
