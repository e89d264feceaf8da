"""Where replicas lie: log folders, leaders, reassignments."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Message, array, wire


class AlterReplicaLogDirTopic(Message):
    name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class AlterReplicaLogDir(Message):
    path: str = wire(STRING)
    topics: list[AlterReplicaLogDirTopic] = wire(array(AlterReplicaLogDirTopic))


class AlterReplicaLogDirsRequest(Message, flexible_since=2):
    dirs: list[AlterReplicaLogDir] = wire(array(AlterReplicaLogDir))


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = wire(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = wire(array(AlterReplicaLogDirPartitionResult))


class AlterReplicaLogDirsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[AlterReplicaLogDirTopicResult] = wire(array(AlterReplicaLogDirTopicResult))


class DescribableLogDirTopic(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class DescribeLogDirsRequest(Message, flexible_since=2):
    """Null topics means all."""

    topics: list[DescribableLogDirTopic] | None = wire(array(DescribableLogDirTopic), nullable=0)


class DescribeLogDirsPartition(Message):
    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


class DescribeLogDirsTopic(Message):
    name: str = wire(STRING)
    partitions: list[DescribeLogDirsPartition] = wire(array(DescribeLogDirsPartition))


class DescribeLogDirsResult(Message):
    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: list[DescribeLogDirsTopic] = wire(array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, since=4, default=-1)
    usable_bytes: int = wire(INT64, since=4, default=-1)
    is_cordoned: bool = wire(BOOL, since=5)


class DescribeLogDirsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=3)
    results: list[DescribeLogDirsResult] = wire(array(DescribeLogDirsResult))


class TopicPartitions(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class ElectLeadersRequest(Message, flexible_since=2):
    """Election types: 0 preferred, 1 unclean. Null partitions means all."""

    election_type: int = wire(INT8, since=1)
    topic_partitions: list[TopicPartitions] | None = wire(array(TopicPartitions), nullable=0)
    timeout_ms: int = wire(INT32, default=60000)


class PartitionResult(Message):
    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class ReplicaElectionResult(Message):
    topic: str = wire(STRING)
    partition_result: list[PartitionResult] = wire(array(PartitionResult))


class ElectLeadersResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=1)
    replica_election_results: list[ReplicaElectionResult] = wire(array(ReplicaElectionResult))


class ReassignablePartition(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] | None = wire(array(INT32), nullable=0, default=None)


class ReassignableTopic(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartition] = wire(array(ReassignablePartition))


class AlterPartitionReassignmentsRequest(Message, flexible_since=0):
    """Null replicas cancel a reassignment that is under way."""

    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    topics: list[ReassignableTopic] = wire(array(ReassignableTopic))


class ReassignablePartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class ReassignableTopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[ReassignablePartitionResponse] = wire(array(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    responses: list[ReassignableTopicResponse] = wire(array(ReassignableTopicResponse))


class ListPartitionReassignmentsTopics(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


class ListPartitionReassignmentsRequest(Message, flexible_since=0):
    """Null topics means all."""

    timeout_ms: int = wire(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = wire(
        array(ListPartitionReassignmentsTopics), nullable=0, default=None
    )


class OngoingPartitionReassignment(Message):
    partition_index: int = wire(INT32)
    replicas: list[int] = wire(array(INT32))
    adding_replicas: list[int] = wire(array(INT32))
    removing_replicas: list[int] = wire(array(INT32))


class OngoingTopicReassignment(Message):
    name: str = wire(STRING)
    partitions: list[OngoingPartitionReassignment] = wire(array(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    topics: list[OngoingTopicReassignment] = wire(array(OngoingTopicReassignment))
