"""Looking at producers and transactions."""

from __future__ import annotations

from functools import partial

from mainstem.broker.transactions import TxnInfo, TxnState
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import MainstemError
from mainstem.wire.kafka.transaction_admin import (
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducerState,
    TransactionTopic,
)

STATES = {state.value: state for state in TxnState}
# States of Kafka's that a filter may name and that no transaction here is ever in.
NEVER_HERE = frozenset({"Dead", "PrepareEpochFence"})


async def describe(
    request: Request, message: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Encoded:
    # Once each: a transaction may be large, and its name is short.
    found = await Slices().each(partial(_described, request), dict.fromkeys(message.transactional_ids))
    response = DescribeTransactionsResponse(transaction_states=found)
    return await encoded_if_large(response, request.version, len(found))


def _described(request: Request, transactional_id: str) -> DescribedTransaction:
    try:
        request.session.require("describe", "transactional_id", transactional_id)
        info = request.broker.transactions.coordinator.describe(transactional_id)
    except MainstemError as error:
        return DescribedTransaction(
            error_code=code_of(error),
            transactional_id=transactional_id,
            transaction_start_time_ms=-1,
            producer_id=-1,
            producer_epoch=-1,
        )
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=info.state.value,
        transaction_timeout_ms=info.timeout_ms,
        transaction_start_time_ms=info.start_ms,
        producer_id=info.producer_id,
        producer_epoch=info.epoch,
        topics=_topics(request, info),
    )


def _topics(request: Request, info: TxnInfo) -> list[TransactionTopic]:
    """Those that still exist and that the client may know of."""
    by_name: dict[str, list[int]] = {}
    for number in info.partitions:
        partition = request.broker.topics.partitions.get(number)
        if partition is not None and request.session.allows("describe", "topic", partition.topic.name):
            by_name.setdefault(partition.topic.name, []).append(partition.index)
    return [TransactionTopic(topic=name, partitions=sorted(parts)) for name, parts in by_name.items()]


async def list_all(request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse | Encoded:
    wanted = dict.fromkeys(message.state_filters)
    unknown = [name for name in wanted if name not in STATES and name not in NEVER_HERE]
    states = [STATES[name] for name in wanted if name in STATES]
    if message.state_filters and not states:
        return ListTransactionsResponse(unknown_state_filters=unknown)
    try:
        found = request.broker.transactions.list_transactions(
            states,
            message.producer_id_filters,
            message.duration_filter,
            message.transactional_id_pattern or "",
        )
    except MainstemError as error:
        return ListTransactionsResponse(error_code=code_of(error), unknown_state_filters=unknown)
    slices, response = Slices(), ListTransactionsResponse(unknown_state_filters=unknown)
    for info in found:
        if request.session.allows("describe", "transactional_id", info.transactional_id):
            response.transaction_states.append(
                ListedTransaction(
                    transactional_id=info.transactional_id,
                    producer_id=info.producer_id,
                    transaction_state=info.state.value,
                )
            )
        if slices.used_up():
            await slices.rest()
    return await encoded_if_large(response, request.version, len(response.transaction_states))


async def describe_producers(
    request: Request, message: DescribeProducersRequest
) -> DescribeProducersResponse | Encoded:
    slices, response, count = Slices(), DescribeProducersResponse(), 0
    for topic in message.topics:
        look = partial(_producers, request, topic.name)
        # Once each: a partition may have many producers.
        found = await slices.each(look, dict.fromkeys(topic.partition_indexes))
        response.topics.append(DescribedProducersTopic(name=topic.name, partitions=found))
        count += len(found) + 1
    return await encoded_if_large(response, request.version, count)


def _producers(request: Request, topic_name: str, index: int) -> DescribedProducersPartition:
    topics = request.broker.topics
    try:
        request.session.require("read", "topic", topic_name)
        partition = topics.partition(topics.get(topic_name), index)
    except MainstemError as error:
        return DescribedProducersPartition(
            partition_index=index, error_code=code_of(error), error_message=str(error)
        )
    known = [] if partition.producers is None else partition.producers.describe()
    return DescribedProducersPartition(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.last_append_ms,
                current_txn_start_offset=one.txn_first_offset,
            )
            for one in known
        ],
    )
