"""Where topics live: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT16, INT32, STRING, UUID, Message, array, wire


class MetadataRequestTopic(Message):
    topic_id: bytes = wire(UUID, since=10)
    name: str | None = wire(STRING, nullable=10)


class MetadataRequest(Message, flexible_since=9):
    """Null topics means all; in version 0, where null cannot be said, an empty list does."""

    topics: list[MetadataRequestTopic] | None = wire(array(MetadataRequestTopic), nullable=1)
    allow_auto_topic_creation: bool = wire(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = wire(BOOL, since=8, until=10)  # later in DescribeCluster
    include_topic_authorized_operations: bool = wire(BOOL, since=8)


class MetadataResponseBroker(Message):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, since=1, nullable=1, default=None)


class MetadataResponsePartition(Message):
    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=7, default=-1)
    replica_nodes: list[int] = wire(array(INT32))
    isr_nodes: list[int] = wire(array(INT32))
    offline_replicas: list[int] = wire(array(INT32), since=5)


class MetadataResponseTopic(Message):
    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable=12)
    topic_id: bytes = wire(UUID, since=10)
    is_internal: bool = wire(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = wire(array(MetadataResponsePartition))
    # a bit per ACL operation; the default says that nobody asked
    topic_authorized_operations: int = wire(INT32, since=8, default=-0x80000000)


class MetadataResponse(Message, flexible_since=9):
    throttle_time_ms: int = wire(INT32, since=3)
    brokers: list[MetadataResponseBroker] = wire(array(MetadataResponseBroker))
    cluster_id: str | None = wire(STRING, since=2, nullable=2, default=None)
    controller_id: int = wire(INT32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = wire(array(MetadataResponseTopic))
    cluster_authorized_operations: int = wire(INT32, since=8, until=10, default=-0x80000000)
    error_code: int = wire(INT16, since=13)


class DescribeTopicPartitionsRequestTopic(Message):
    name: str = wire(STRING)


class Cursor(Message):
    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


class DescribeTopicPartitionsRequest(Message, flexible_since=0):
    """Topics in pages: the cursor of one response starts the next request."""

    topics: list[DescribeTopicPartitionsRequestTopic] = wire(array(DescribeTopicPartitionsRequestTopic))
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: Cursor | None = wire(Cursor, nullable=0)


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    replica_nodes: list[int] = wire(array(INT32))
    isr_nodes: list[int] = wire(array(INT32))
    eligible_leader_replicas: list[int] | None = wire(array(INT32), nullable=0, default=None)
    last_known_elr: list[int] | None = wire(array(INT32), nullable=0, default=None)
    offline_replicas: list[int] = wire(array(INT32))


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable=0)
    topic_id: bytes = wire(UUID)
    is_internal: bool = wire(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire(
        array(DescribeTopicPartitionsResponsePartition)
    )
    topic_authorized_operations: int = wire(INT32, default=-0x80000000)


class DescribeTopicPartitionsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = wire(array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = wire(Cursor, nullable=0)
