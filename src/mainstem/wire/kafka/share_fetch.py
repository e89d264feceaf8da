"""Reading and acknowledging in a share group.

Acknowledge types per offset: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Message,
    array,
    wire,
)


class AcknowledgementBatch(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    acknowledge_types: list[int] = wire(array(INT8))


class ShareFetchPartition(Message):
    partition_index: int = wire(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = wire(array(AcknowledgementBatch))


class ShareFetchTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ShareFetchPartition] = wire(array(ShareFetchPartition))


class ShareForgottenTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


class ShareFetchRequest(Message, flexible_since=0):
    """Fetches and acknowledges in one go. Session epoch 0 opens a share session, -1 closes it."""

    group_id: str | None = wire(STRING, nullable=0, default=None)
    member_id: str | None = wire(STRING, nullable=0)
    share_session_epoch: int = wire(INT32)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=0x7FFFFFFF)
    max_records: int = wire(INT32)
    batch_size: int = wire(INT32)
    share_acquire_mode: int = wire(INT8, since=2)
    is_renew_ack: bool = wire(BOOL, since=2)
    topics: list[ShareFetchTopic] = wire(array(ShareFetchTopic))
    forgotten_topics_data: list[ShareForgottenTopic] = wire(array(ShareForgottenTopic))


class LeaderIdAndEpoch(Message):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class AcquiredRecords(Message):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_count: int = wire(INT16)


class ShareFetchPartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    acknowledge_error_code: int = wire(INT16)
    acknowledge_error_message: str | None = wire(STRING, nullable=0, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)
    records: bytes | memoryview | None = wire(RECORDS)
    acquired_records: list[AcquiredRecords] = wire(array(AcquiredRecords))


class ShareFetchableTopicResponse(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ShareFetchPartitionData] = wire(array(ShareFetchPartitionData))


class NodeEndpoint(Message):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=0, default=None)


class ShareFetchResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    acquisition_lock_timeout_ms: int = wire(INT32)
    responses: list[ShareFetchableTopicResponse] = wire(array(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint))


class AcknowledgePartition(Message):
    partition_index: int = wire(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = wire(array(AcknowledgementBatch))


class AcknowledgeTopic(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[AcknowledgePartition] = wire(array(AcknowledgePartition))


class ShareAcknowledgeRequest(Message, flexible_since=0):
    group_id: str | None = wire(STRING, nullable=0, default=None)
    member_id: str | None = wire(STRING, nullable=0)
    share_session_epoch: int = wire(INT32)
    is_renew_ack: bool = wire(BOOL, since=2)
    topics: list[AcknowledgeTopic] = wire(array(AcknowledgeTopic))


class ShareAcknowledgePartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[ShareAcknowledgePartitionData] = wire(array(ShareAcknowledgePartitionData))


class ShareAcknowledgeResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    acquisition_lock_timeout_ms: int = wire(INT32, since=2)
    responses: list[ShareAcknowledgeTopicResponse] = wire(array(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint))
