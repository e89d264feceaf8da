"""Producer ids and transactions.

Version 4 of AddPartitionsToTxn is for brokers among themselves and has a list of transactions; clients use
versions up to 3 with the fields named v3_and_below.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Message, array, wire


class InitProducerIdRequest(Message, flexible_since=2):
    """Without a transactional id: a fresh producer id. With a producer id: ask for its next epoch."""

    transactional_id: str | None = wire(STRING, nullable=0)
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, since=3, default=-1)
    producer_epoch: int = wire(INT16, since=3, default=-1)
    enable_2pc: bool = wire(BOOL, since=6)
    keep_prepared_txn: bool = wire(BOOL, since=6)


class InitProducerIdResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, since=6, default=-1)


class AddPartitionsToTxnTopic(Message):
    name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    verify_only: bool = wire(BOOL)
    topics: list[AddPartitionsToTxnTopic] = wire(array(AddPartitionsToTxnTopic))


class AddPartitionsToTxnRequest(Message, flexible_since=3):
    transactions: list[AddPartitionsToTxnTransaction] = wire(array(AddPartitionsToTxnTransaction), since=4)
    v3_and_below_transactional_id: str = wire(STRING, until=3)
    v3_and_below_producer_id: int = wire(INT64, until=3)
    v3_and_below_producer_epoch: int = wire(INT16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = wire(array(AddPartitionsToTxnTopic), until=3)


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


class AddPartitionsToTxnTopicResult(Message):
    name: str = wire(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = wire(
        array(AddPartitionsToTxnPartitionResult)
    )


class AddPartitionsToTxnResult(Message):
    transactional_id: str = wire(STRING)
    topic_results: list[AddPartitionsToTxnTopicResult] = wire(array(AddPartitionsToTxnTopicResult))


class AddPartitionsToTxnResponse(Message, flexible_since=3):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = wire(array(AddPartitionsToTxnResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = wire(
        array(AddPartitionsToTxnTopicResult), until=3
    )


class AddOffsetsToTxnRequest(Message, flexible_since=3):
    """Announces that offsets of this group will be part of the transaction."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)


class AddOffsetsToTxnResponse(Message, flexible_since=3):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)


class EndTxnRequest(Message, flexible_since=3):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)


class EndTxnResponse(Message, flexible_since=3):
    """From version 5 on, each transaction ends with a new epoch, told here."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, since=5, default=-1)
    producer_epoch: int = wire(INT16, since=5, default=-1)


class WritableTxnMarkerTopic(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


class WritableTxnMarker(Message):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)  # True: commit
    topics: list[WritableTxnMarkerTopic] = wire(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, since=2)


class WriteTxnMarkersRequest(Message, flexible_since=1):
    """From a transaction coordinator to the leaders of partitions; clients use it to end a stuck one."""

    markers: list[WritableTxnMarker] = wire(array(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class WritableTxnMarkerTopicResult(Message):
    name: str = wire(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = wire(array(WritableTxnMarkerPartitionResult))


class WritableTxnMarkerResult(Message):
    producer_id: int = wire(INT64)
    topics: list[WritableTxnMarkerTopicResult] = wire(array(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Message, flexible_since=1):
    markers: list[WritableTxnMarkerResult] = wire(array(WritableTxnMarkerResult))


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=2, default=-1)
    committed_metadata: str | None = wire(STRING, nullable=0)


class TxnOffsetCommitRequestTopic(Message):
    name: str = wire(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = wire(array(TxnOffsetCommitRequestPartition))


class TxnOffsetCommitRequest(Message, flexible_since=3):
    """Offsets that count once the transaction commits."""

    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id: int = wire(INT32, since=3, default=-1)
    member_id: str = wire(STRING, since=3)
    group_instance_id: str | None = wire(STRING, since=3, nullable=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire(array(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class TxnOffsetCommitResponseTopic(Message):
    name: str = wire(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = wire(array(TxnOffsetCommitResponsePartition))


class TxnOffsetCommitResponse(Message, flexible_since=3):
    throttle_time_ms: int = wire(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = wire(array(TxnOffsetCommitResponseTopic))
