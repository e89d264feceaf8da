"""Looking at producers and transactions."""

from __future__ import annotations

from mainstem.wire.kafka.schema import INT16, INT32, INT64, STRING, Message, array, wire


class DescribeProducersTopic(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


class DescribeProducersRequest(Message, flexible_since=0):
    """Which producers have state in a partition?"""

    topics: list[DescribeProducersTopic] = wire(array(DescribeProducersTopic))


class ProducerState(Message):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=-1)  # -1: no open transaction


class DescribedProducersPartition(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    active_producers: list[ProducerState] = wire(array(ProducerState))


class DescribedProducersTopic(Message):
    name: str = wire(STRING)
    partitions: list[DescribedProducersPartition] = wire(array(DescribedProducersPartition))


class DescribeProducersResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    topics: list[DescribedProducersTopic] = wire(array(DescribedProducersTopic))


class DescribeTransactionsRequest(Message, flexible_since=0):
    transactional_ids: list[str] = wire(array(STRING))


class TransactionTopic(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class DescribedTransaction(Message):
    error_code: int = wire(INT16)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING)
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)  # -1: not under way
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: list[TransactionTopic] = wire(array(TransactionTopic))


class DescribeTransactionsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    transaction_states: list[DescribedTransaction] = wire(array(DescribedTransaction))


class ListTransactionsRequest(Message, flexible_since=0):
    """Empty filters let everything through; a duration of -1 does too."""

    state_filters: list[str] = wire(array(STRING))
    producer_id_filters: list[int] = wire(array(INT64))
    duration_filter: int = wire(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(STRING, since=2, nullable=2, default=None)


class ListedTransaction(Message):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    transaction_state: str = wire(STRING)


class ListTransactionsResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    unknown_state_filters: list[str] = wire(array(STRING))
    transaction_states: list[ListedTransaction] = wire(array(ListedTransaction))
