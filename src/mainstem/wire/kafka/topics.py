"""Creating, growing, emptying and deleting topics."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Message, array, wire


class CreatableReplicaAssignment(Message):
    partition_index: int = wire(INT32)
    broker_ids: list[int] = wire(array(INT32))


class CreatableTopicConfig(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=0)


class CreatableTopic(Message):
    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: list[CreatableReplicaAssignment] = wire(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = wire(array(CreatableTopicConfig))


class CreateTopicsRequest(Message, flexible_since=5):
    """Partitions and replication factor -1 mean the default of the broker."""

    topics: list[CreatableTopic] = wire(array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60000)
    validate_only: bool = wire(BOOL, since=1)


class CreatableTopicConfigs(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=0)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)  # see configs.py
    is_sensitive: bool = wire(BOOL)


class CreatableTopicResult(Message):
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, since=7)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=1, nullable=0, default=None)
    topic_config_error_code: int = wire(INT16, since=5, tag=0)
    num_partitions: int = wire(INT32, since=5, default=-1)
    replication_factor: int = wire(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = wire(array(CreatableTopicConfigs), since=5, nullable=5)


class CreateTopicsResponse(Message, flexible_since=5):
    throttle_time_ms: int = wire(INT32, since=2)
    topics: list[CreatableTopicResult] = wire(array(CreatableTopicResult))


class DeleteTopicState(Message):
    name: str | None = wire(STRING, nullable=0, default=None)
    topic_id: bytes = wire(UUID)


class DeleteTopicsRequest(Message, flexible_since=4):
    """By name up to version 5, by name or id from version 6 on."""

    topics: list[DeleteTopicState] = wire(array(DeleteTopicState), since=6)
    topic_names: list[str] = wire(array(STRING), until=5)
    timeout_ms: int = wire(INT32)


class DeletableTopicResult(Message):
    name: str | None = wire(STRING, nullable=6)
    topic_id: bytes = wire(UUID, since=6)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=5, nullable=5, default=None)


class DeleteTopicsResponse(Message, flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    responses: list[DeletableTopicResult] = wire(array(DeletableTopicResult))


class DeleteRecordsPartition(Message):
    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


class DeleteRecordsTopic(Message):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartition] = wire(array(DeleteRecordsPartition))


class DeleteRecordsRequest(Message, flexible_since=2):
    """Trims a partition below an offset; -1 is the high watermark."""

    topics: list[DeleteRecordsTopic] = wire(array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)


class DeleteRecordsPartitionResult(Message):
    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


class DeleteRecordsTopicResult(Message):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartitionResult] = wire(array(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    topics: list[DeleteRecordsTopicResult] = wire(array(DeleteRecordsTopicResult))


class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = wire(array(INT32))


class CreatePartitionsTopic(Message):
    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: list[CreatePartitionsAssignment] | None = wire(array(CreatePartitionsAssignment), nullable=0)


class CreatePartitionsRequest(Message, flexible_since=2):
    """`count` is the new total, never fewer than there are."""

    topics: list[CreatePartitionsTopic] = wire(array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


class CreatePartitionsTopicResult(Message):
    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class CreatePartitionsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[CreatePartitionsTopicResult] = wire(array(CreatePartitionsTopicResult))
