"""Finding a place in a partition: by time, by leader epoch.

Special timestamps of ListOffsets: -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 the
earliest on local disk, -5 the latest in tiered storage, -6 the earliest still to be uploaded there.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT8, INT16, INT32, INT64, STRING, Message, array, wire


class ListOffsetsPartition(Message):
    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=4, default=-1)
    timestamp: int = wire(INT64)


class ListOffsetsTopic(Message):
    name: str = wire(STRING)
    partitions: list[ListOffsetsPartition] = wire(array(ListOffsetsPartition))


class ListOffsetsRequest(Message, flexible_since=6):
    """Offsets by timestamp, or by one of the special timestamps above."""

    replica_id: int = wire(INT32)
    isolation_level: int = wire(INT8, since=2)
    topics: list[ListOffsetsTopic] = wire(array(ListOffsetsTopic))
    timeout_ms: int = wire(INT32, since=10)


class ListOffsetsPartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    timestamp: int = wire(INT64, default=-1)
    offset: int = wire(INT64, default=-1)
    leader_epoch: int = wire(INT32, since=4, default=-1)


class ListOffsetsTopicResponse(Message):
    name: str = wire(STRING)
    partitions: list[ListOffsetsPartitionResponse] = wire(array(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Message, flexible_since=6):
    throttle_time_ms: int = wire(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = wire(array(ListOffsetsTopicResponse))


class OffsetForLeaderPartition(Message):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=2, default=-1)
    leader_epoch: int = wire(INT32)


class OffsetForLeaderTopic(Message):
    topic: str = wire(STRING)
    partitions: list[OffsetForLeaderPartition] = wire(array(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Message, flexible_since=4):
    """Where did an epoch end? Consumers find out so whether the log was cut behind them."""

    replica_id: int = wire(INT32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = wire(array(OffsetForLeaderTopic))


class EpochEndOffset(Message):
    error_code: int = wire(INT16)
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=1, default=-1)
    end_offset: int = wire(INT64, default=-1)


class OffsetForLeaderTopicResult(Message):
    topic: str = wire(STRING)
    partitions: list[EpochEndOffset] = wire(array(EpochEndOffset))


class OffsetForLeaderEpochResponse(Message, flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=2)
    topics: list[OffsetForLeaderTopicResult] = wire(array(OffsetForLeaderTopicResult))
