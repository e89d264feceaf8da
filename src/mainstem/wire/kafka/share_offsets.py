"""Where share groups start to read: describe, alter, delete."""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT16, INT32, INT64, STRING, UUID, Message, array, wire


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = wire(
        array(DescribeShareGroupOffsetsRequestTopic), nullable=0
    )


class DescribeShareGroupOffsetsRequest(Message, flexible_since=0):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = wire(array(DescribeShareGroupOffsetsRequestGroup))


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)
    leader_epoch: int = wire(INT32)
    lag: int = wire(INT64, since=1, default=-1)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = wire(
        array(DescribeShareGroupOffsetsResponsePartition)
    )


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = wire(array(DescribeShareGroupOffsetsResponseTopic))
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class DescribeShareGroupOffsetsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = wire(array(DescribeShareGroupOffsetsResponseGroup))


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = wire(
        array(AlterShareGroupOffsetsRequestPartition)
    )


class AlterShareGroupOffsetsRequest(Message, flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = wire(array(AlterShareGroupOffsetsRequestTopic))


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = wire(
        array(AlterShareGroupOffsetsResponsePartition)
    )


class AlterShareGroupOffsetsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = wire(array(AlterShareGroupOffsetsResponseTopic))


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = wire(STRING)


class DeleteShareGroupOffsetsRequest(Message, flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = wire(array(DeleteShareGroupOffsetsRequestTopic))


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class DeleteShareGroupOffsetsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = wire(array(DeleteShareGroupOffsetsResponseTopic))
