"""How far a group has read: commit, fetch, delete.

OffsetFetch asks about many groups at once from version 8 on; older ones about the one in `group_id`. Topics
are named by id from version 10 on.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, array, wire


class OffsetCommitRequestPartition(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=6, default=-1)
    committed_metadata: str | None = wire(STRING, nullable=0)


class OffsetCommitRequestTopic(Message):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: list[OffsetCommitRequestPartition] = wire(array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Message, flexible_since=8):
    """Generation -1 and no member id: a commit from outside of any group membership."""

    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=7, nullable=7, default=None)
    retention_time_ms: int = wire(INT64, until=4, default=-1)  # -1: as the broker is set up
    topics: list[OffsetCommitRequestTopic] = wire(array(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class OffsetCommitResponseTopic(Message):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: list[OffsetCommitResponsePartition] = wire(array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Message, flexible_since=8):
    throttle_time_ms: int = wire(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = wire(array(OffsetCommitResponseTopic))


class OffsetFetchRequestTopic(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


class OffsetFetchRequestTopics(Message):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partition_indexes: list[int] = wire(array(INT32))


class OffsetFetchRequestGroup(Message):
    group_id: str = wire(STRING)
    member_id: str | None = wire(STRING, since=9, nullable=9, default=None)
    member_epoch: int = wire(INT32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = wire(array(OffsetFetchRequestTopics), nullable=0)


class OffsetFetchRequest(Message, flexible_since=6):
    """Null topics means every topic the group has committed."""

    group_id: str = wire(STRING, until=7)
    topics: list[OffsetFetchRequestTopic] | None = wire(array(OffsetFetchRequestTopic), until=7, nullable=2)
    groups: list[OffsetFetchRequestGroup] = wire(array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = wire(BOOL, since=7)


class OffsetFetchResponsePartition(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=5, default=-1)
    metadata: str | None = wire(STRING, nullable=0)
    error_code: int = wire(INT16)


class OffsetFetchResponseTopic(Message):
    name: str = wire(STRING)
    partitions: list[OffsetFetchResponsePartition] = wire(array(OffsetFetchResponsePartition))


class OffsetFetchResponsePartitions(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, default=-1)
    metadata: str | None = wire(STRING, nullable=0)
    error_code: int = wire(INT16)


class OffsetFetchResponseTopics(Message):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: list[OffsetFetchResponsePartitions] = wire(array(OffsetFetchResponsePartitions))


class OffsetFetchResponseGroup(Message):
    group_id: str = wire(STRING)
    topics: list[OffsetFetchResponseTopics] = wire(array(OffsetFetchResponseTopics))
    error_code: int = wire(INT16)


class OffsetFetchResponse(Message, flexible_since=6):
    throttle_time_ms: int = wire(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = wire(array(OffsetFetchResponseTopic), until=7)
    error_code: int = wire(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = wire(array(OffsetFetchResponseGroup), since=8)


class OffsetDeleteRequestPartition(Message):
    partition_index: int = wire(INT32)


class OffsetDeleteRequestTopic(Message):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteRequestPartition] = wire(array(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Message):
    group_id: str = wire(STRING)
    topics: list[OffsetDeleteRequestTopic] = wire(array(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class OffsetDeleteResponseTopic(Message):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteResponsePartition] = wire(array(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Message):
    error_code: int = wire(INT16)
    throttle_time_ms: int = wire(INT32)
    topics: list[OffsetDeleteResponseTopic] = wire(array(OffsetDeleteResponseTopic))
