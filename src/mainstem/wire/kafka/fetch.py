"""Fetch, in full. The broker's hot path uses `hot.py`; clients and tests use these classes.

Version 13 names topics by id instead of by name. Isolation level 0 reads everything, 1 only what is
committed.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Message, array, wire


class ReplicaState(Message):
    replica_id: int = wire(INT32, default=-1)
    replica_epoch: int = wire(INT64, default=-1)


class FetchPartition(Message):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=9, default=-1)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, since=12, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)  # of a follower; -1 from consumers
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=17, tag=0)
    high_watermark: int = wire(INT64, since=18, tag=1, default=0x7FFFFFFFFFFFFFFF)


class FetchTopic(Message):
    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: list[FetchPartition] = wire(array(FetchPartition))


class ForgottenTopic(Message):
    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: list[int] = wire(array(INT32))


class FetchRequest(Message, flexible_since=12):
    """A long poll for records. Session id 0 and epoch -1: no fetch session."""

    cluster_id: str | None = wire(STRING, since=12, nullable=12, tag=0, default=None)
    replica_id: int = wire(INT32, until=14, default=-1)
    replica_state: ReplicaState | None = wire(ReplicaState, since=15, tag=1)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=0x7FFFFFFF)
    isolation_level: int = wire(INT8)
    session_id: int = wire(INT32, since=7)
    session_epoch: int = wire(INT32, since=7, default=-1)
    topics: list[FetchTopic] = wire(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = wire(array(ForgottenTopic), since=7)
    rack_id: str = wire(STRING, since=11)


class EpochEndOffset(Message):
    epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


class LeaderIdAndEpoch(Message):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


class SnapshotId(Message):
    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


class AbortedTransaction(Message):
    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)


class PartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = wire(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = wire(SnapshotId, since=12, tag=2)
    # null when reading uncommitted
    aborted_transactions: list[AbortedTransaction] | None = wire(array(AbortedTransaction), nullable=0)
    preferred_read_replica: int = wire(INT32, since=11, default=-1)
    records: bytes | memoryview | None = wire(RECORDS, nullable=0)


class FetchableTopicResponse(Message):
    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: list[PartitionData] = wire(array(PartitionData))


class NodeEndpoint(Message):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=0, default=None)


class FetchResponse(Message, flexible_since=12):
    """`session_id` 0 means that the broker keeps no session."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=7)
    session_id: int = wire(INT32, since=7)
    responses: list[FetchableTopicResponse] = wire(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), since=16, tag=0)
