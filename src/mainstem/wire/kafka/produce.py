"""Produce, in full. The broker's hot path uses `hot.py`; clients and tests use these classes.

Version 13 names topics by id instead of by name.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Message, array, wire


class PartitionProduceData(Message):
    index: int = wire(INT32)
    records: bytes | memoryview | None = wire(RECORDS, nullable=0)


class TopicProduceData(Message):
    name: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partition_data: list[PartitionProduceData] = wire(array(PartitionProduceData))


class ProduceRequest(Message, flexible_since=9):
    """Batches to append. `acks` is 0 (no response at all), 1 or -1 (all replicas)."""

    transactional_id: str | None = wire(STRING, nullable=0, default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: list[TopicProduceData] = wire(array(TopicProduceData))


class BatchIndexAndErrorMessage(Message):
    batch_index: int = wire(INT32)
    batch_index_error_message: str | None = wire(STRING, nullable=0, default=None)


class LeaderIdAndEpoch(Message):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


class PartitionProduceResponse(Message):
    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, default=-1)  # -1: the batch keeps its own timestamps
    log_start_offset: int = wire(INT64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire(array(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = wire(STRING, since=8, nullable=8, default=None)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Message):
    name: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partition_responses: list[PartitionProduceResponse] = wire(array(PartitionProduceResponse))


class NodeEndpoint(Message):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=0, default=None)


class ProduceResponse(Message, flexible_since=9):
    responses: list[TopicProduceResponse] = wire(array(TopicProduceResponse))
    throttle_time_ms: int = wire(INT32)
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), since=10, tag=0)
