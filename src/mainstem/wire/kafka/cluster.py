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


class PartitionData(Message):
    partition_index: int = wire(INT32)


class TopicData(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionData] = wire(array(PartitionData))


class DescribeQuorumRequest(Message, flexible_since=0):
    topics: list[TopicData] = wire(array(TopicData))


class ReplicaState(Message):
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=2)
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp: int = wire(INT64, since=1, default=-1)
    last_caught_up_timestamp: int = wire(INT64, since=1, default=-1)


class DescribeQuorumPartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=2, nullable=2)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    high_watermark: int = wire(INT64)
    current_voters: list[ReplicaState] = wire(array(ReplicaState))
    observers: list[ReplicaState] = wire(array(ReplicaState))


class DescribeQuorumTopicData(Message):
    topic_name: str = wire(STRING)
    partitions: list[DescribeQuorumPartitionData] = wire(array(DescribeQuorumPartitionData))


class Listener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class Node(Message):
    node_id: int = wire(INT32)
    listeners: list[Listener] = wire(array(Listener))


class DescribeQuorumResponse(Message, flexible_since=0):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=2, nullable=2)
    topics: list[DescribeQuorumTopicData] = wire(array(DescribeQuorumTopicData))
    nodes: list[Node] = wire(array(Node), since=2)


class FeatureUpdateKey(Message):
    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, until=0)
    upgrade_type: int = wire(INT8, since=1, default=1)


class UpdateFeaturesRequest(Message, flexible_since=0):
    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = wire(array(FeatureUpdateKey))
    validate_only: bool = wire(BOOL, since=1)


class UpdatableFeatureResult(Message):
    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0)


class UpdateFeaturesResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0)
    results: list[UpdatableFeatureResult] = wire(array(UpdatableFeatureResult), until=1)


class UnregisterBrokerRequest(Message, flexible_since=0):
    broker_id: int = wire(INT32)


class UnregisterBrokerResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0)
