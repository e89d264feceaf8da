"""Producer ids and transactions."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.broker.broker import Broker
from mainstem.broker.partition import Topic
from mainstem.broker.transactions import CommittedOffset
from mainstem.fronts.kafka.codes import NONE, code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.handlers.group_offsets import check_count
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import MainstemError, NotAuthorized, TransactionAbortable
from mainstem.wire.kafka.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, OPERATION_NOT_ATTEMPTED, PRODUCER_FENCED = 47, 48, 55, 90
TRANSACTION_ABORTABLE = 120

# The first versions whose clients know PRODUCER_FENCED; older ones were told INVALID_PRODUCER_EPOCH.
INIT_KNOWS_FENCED, OTHERS_KNOW_FENCED = 4, 2
# AddPartitionsToTxn between brokers: many transactions at once, and questions instead of additions.
BATCHED_SINCE, VERIFY_KNOWS_ABORTABLE = 4, 5
# From here on every transaction ends with a new epoch, and groups are not announced.
END_BUMPS_SINCE, COMMIT_ADDS_GROUP_SINCE, COMMIT_KNOWS_ABORTABLE = 5, 5, 4


async def init_producer_id(request: Request, message: InitProducerIdRequest) -> InitProducerIdResponse:
    session, transactional_id = request.session, message.transactional_id
    try:
        if transactional_id is not None:
            session.require("write", "transactional_id", transactional_id)
        elif not session.allows_any("write", "topic"):
            session.require("idempotent_write", "cluster", "kafka-cluster")
        producer_id, epoch = await request.broker.transactions.init_producer_id(
            transactional_id, message.transaction_timeout_ms, message.producer_id, message.producer_epoch
        )
    except MainstemError as error:
        return InitProducerIdResponse(
            error_code=_code(error, request.version >= INIT_KNOWS_FENCED), producer_epoch=-1
        )
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


# --- adding partitions ---------------------------------------------------------------------------


async def add_partitions(
    request: Request, message: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Encoded:
    slices = Slices()
    if request.version < BATCHED_SINCE:
        only = AddPartitionsToTxnTransaction(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=message.v3_and_below_topics,
        )
        added = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _add_to_one(request, only))
        count = sum(len(topic.partitions) + 1 for topic in only.topics)
        return await encoded_if_large(added, request.version, count)
    try:
        request.session.require("cluster_action", "cluster", "kafka-cluster")
    except NotAuthorized as error:
        return AddPartitionsToTxnResponse(error_code=code_of(error))
    response, count = AddPartitionsToTxnResponse(), 0
    for one in message.transactions:
        results = await _add_to_one(request, one)
        response.results_by_transaction.append(
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results)
        )
        count += 1 + sum(len(topic.partitions) + 1 for topic in one.topics)
        if slices.used_up():
            await slices.rest()
    return await encoded_if_large(response, request.version, count)


async def _add_to_one(
    request: Request, txn: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    """All of the partitions are added, or none."""
    by_broker = request.version >= BATCHED_SINCE
    ids: list[int] = []
    refused: dict[tuple[str, int], int] = {}
    try:
        if not by_broker:
            request.session.require("write", "transactional_id", txn.transactional_id)
        check_count(len(topic.partitions) for topic in txn.topics)
        for topic in txn.topics:
            for index in topic.partitions:
                try:
                    ids.append(_partition_id(request, topic.name, index, asked_by_broker=by_broker))
                except MainstemError as error:
                    refused[topic.name, index] = code_of(error)
        if refused:
            return _results(txn.topics, refused, OPERATION_NOT_ATTEMPTED)
        await _add_or_verify(request, txn, ids)
    except TransactionAbortable:
        known = request.version >= VERIFY_KNOWS_ABORTABLE
        return _results(txn.topics, {}, TRANSACTION_ABORTABLE if known else INVALID_TXN_STATE)
    except MainstemError as error:
        return _results(txn.topics, {}, _code(error, request.version >= OTHERS_KNOW_FENCED))
    return _results(txn.topics, {}, NONE)


async def _add_or_verify(request: Request, txn: AddPartitionsToTxnTransaction, ids: list[int]) -> None:
    who = (txn.transactional_id, txn.producer_id, txn.producer_epoch)
    transactions = request.broker.transactions
    if not txn.verify_only:
        await transactions.add_partitions(*who, ids)
    elif transactions.coordinator.verify_partitions(*who, ids):
        raise TransactionAbortable(f"not all of them are in the transaction of {txn.transactional_id!r}")


def _partition_id(request: Request, topic_name: str, index: int, *, asked_by_broker: bool) -> int:
    topics = request.broker.topics
    if not asked_by_broker:
        request.session.require("write", "topic", topic_name)
    return topics.partition(topics.get(topic_name), index).id


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], refused: dict[tuple[str, int], int], other_code: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=refused.get((topic.name, index), other_code),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


# --- offsets, and the end ------------------------------------------------------------------------


async def add_offsets(request: Request, message: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    try:
        request.session.require("write", "transactional_id", message.transactional_id)
        request.session.require("read", "group", message.group_id)
        await request.broker.transactions.add_offsets(
            message.transactional_id, message.producer_id, message.producer_epoch, message.group_id
        )
    except MainstemError as error:
        return AddOffsetsToTxnResponse(error_code=_code(error, request.version >= OTHERS_KNOW_FENCED))
    return AddOffsetsToTxnResponse()


async def end_txn(request: Request, message: EndTxnRequest) -> EndTxnResponse:
    try:
        request.session.require("write", "transactional_id", message.transactional_id)
        producer_id, epoch = await request.broker.transactions.end_txn(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            message.committed,
            bump=request.version >= END_BUMPS_SINCE,
        )
    except MainstemError as error:
        return EndTxnResponse(error_code=_code(error, request.version >= OTHERS_KNOW_FENCED))
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


async def commit_offsets(
    request: Request, message: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Encoded:
    offsets: list[CommittedOffset] = []
    codes: dict[tuple[str, int], int] = {}
    refused = NONE
    try:
        request.session.require("write", "transactional_id", message.transactional_id)
        request.session.require("read", "group", message.group_id)
        check_count(len(topic.partitions) for topic in message.topics)
        for topic in message.topics:
            for wanted in topic.partitions:
                try:
                    offsets.append(_staged(request, topic.name, wanted))
                except MainstemError as error:
                    codes[topic.name, wanted.partition_index] = code_of(error)
        if offsets:
            await _stage(request, message, offsets)
    except MainstemError as error:
        refused = code_of(error)
    slices, response, count = Slices(), TxnOffsetCommitResponse(), 0
    for topic in message.topics:
        told = TxnOffsetCommitResponseTopic(name=topic.name)
        response.topics.append(told)
        for wanted in topic.partitions:
            code = codes.get((topic.name, wanted.partition_index), refused)
            told.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=wanted.partition_index, error_code=code)
            )
            if slices.used_up():
                await slices.rest()
        count += len(told.partitions) + 1
    return await encoded_if_large(response, request.version, count)


def _staged(request: Request, topic_name: str, wanted: TxnOffsetCommitRequestPartition) -> CommittedOffset:
    request.session.require("read", "topic", topic_name)
    topic = _topic_with(request.broker, topic_name, wanted.partition_index)
    metadata = wanted.committed_metadata or ""
    request.broker.groups.check_metadata(metadata)
    return CommittedOffset(
        topic.id,
        wanted.partition_index,
        wanted.committed_offset,
        wanted.committed_leader_epoch,
        metadata,
        request.broker.groups.now_ms(),
    )


def _topic_with(broker: Broker, topic_name: str, index: int) -> Topic:
    return broker.topics.partition(broker.topics.get(topic_name), index).topic


async def _stage(request: Request, message: TxnOffsetCommitRequest, offsets: list[CommittedOffset]) -> None:
    broker = request.broker
    broker.groups.check_commit(
        message.group_id, message.member_id, message.group_instance_id, message.generation_id, in_txn=True
    )
    await broker.transactions.commit_offsets(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        message.group_id,
        offsets,
        adds_group=request.version >= COMMIT_ADDS_GROUP_SINCE,
        abortable_known=request.version >= COMMIT_KNOWS_ABORTABLE,
    )


def _code(error: MainstemError, knows_fenced: bool) -> int:
    code = code_of(error)
    return INVALID_PRODUCER_EPOCH if code == PRODUCER_FENCED and not knows_fenced else code
