"""The cluster as a whole: brokers, quorum, features."""

from __future__ import annotations

from mainstem.wire.kafka.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Message,
    array,
    wire,
)


class DescribeClusterRequest(Message, flexible_since=0):
    """Endpoint types: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, since=1, default=1)
    include_fenced_brokers: bool = wire(BOOL, since=2)


class DescribeClusterBroker(Message):
    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=0, default=None)
    is_fenced: bool = wire(BOOL, since=2)


class DescribeClusterResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    endpoint_type: int = wire(INT8, since=1, default=1)
    cluster_id: str = wire(STRING)
    controller_id: int = wire(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = wire(array(DescribeClusterBroker))
    cluster_authorized_operations: int = wire(INT32, default=-0x80000000)


class QuorumPartition(Message):
    partition_index: int = wire(INT32)


class QuorumTopic(Message):
    topic_name: str = wire(STRING)
    partitions: list[QuorumPartition] = wire(array(QuorumPartition))


class DescribeQuorumRequest(Message, flexible_since=0):
    topics: list[QuorumTopic] = wire(array(QuorumTopic))


class QuorumReplica(Message):
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=2)
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp: int = wire(INT64, since=1, default=-1)
    last_caught_up_timestamp: int = wire(INT64, since=1, default=-1)


class QuorumPartitionState(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=2, nullable=2, default=None)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    high_watermark: int = wire(INT64)
    current_voters: list[QuorumReplica] = wire(array(QuorumReplica))
    observers: list[QuorumReplica] = wire(array(QuorumReplica))


class QuorumTopicState(Message):
    topic_name: str = wire(STRING)
    partitions: list[QuorumPartitionState] = wire(array(QuorumPartitionState))


class QuorumListener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class QuorumNode(Message):
    node_id: int = wire(INT32)
    listeners: list[QuorumListener] = wire(array(QuorumListener))


class DescribeQuorumResponse(Message, flexible_since=0):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=2, nullable=2, default=None)
    topics: list[QuorumTopicState] = wire(array(QuorumTopicState))
    nodes: list[QuorumNode] = wire(array(QuorumNode), since=2)


class FeatureUpdateKey(Message):
    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, until=0)
    upgrade_type: int = wire(INT8, since=1, default=1)


class UpdateFeaturesRequest(Message, flexible_since=0):
    """Upgrade types: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""

    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = wire(array(FeatureUpdateKey))
    validate_only: bool = wire(BOOL, since=1)


class UpdatableFeatureResult(Message):
    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class UpdateFeaturesResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    results: list[UpdatableFeatureResult] = wire(array(UpdatableFeatureResult), until=1)


class UnregisterBrokerRequest(Message, flexible_since=0):
    broker_id: int = wire(INT32)


class UnregisterBrokerResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
