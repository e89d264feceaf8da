"""Transactions request by request: both versions of them, retries, strangers, and what admins see."""

from dataclasses import dataclass
from typing import Any

import pytest
from kafka_kit import Wire, batch, create_topic, new_name, read, until

from mainstem.testing.broker import Broker
from mainstem.wire.kafka.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from mainstem.wire.kafka.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from mainstem.wire.kafka.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from mainstem.wire.kafka.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, INVALID_TIMEOUT = 47, 48, 49, 50
UNKNOWN_TOPIC, NOT_ATTEMPTED, UNSTABLE, FENCED, NOT_FOUND, ABORTABLE = 3, 55, 88, 90, 105, 120
# The version of Produce that adds partitions by itself, and of EndTxn that gives a new epoch.
PRODUCE_2, END_2, COMMIT_2 = 12, 5, 5


@dataclass
class Txn:
    """A producer's side of the protocol."""

    wire: Wire
    name: str
    who: tuple[int, int] = (-1, -1)

    def init(self, version: int = 5, expected: tuple[int, int] = (-1, -1)) -> Any:
        answer = self.wire.ask(
            InitProducerIdRequest(
                transactional_id=self.name,
                transaction_timeout_ms=60_000,
                producer_id=expected[0],
                producer_epoch=expected[1],
            ),
            version,
        )
        if not answer.error_code:
            self.who = (answer.producer_id, answer.producer_epoch)
        return answer

    def add(self, *topics: str, version: int = 3) -> list[int]:
        named = [AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics]
        asked = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.who[0],
            v3_and_below_producer_epoch=self.who[1],
            v3_and_below_topics=named,
        )
        results = self.wire.ask(asked, version).results_by_topic_v3_and_below
        return [one.results_by_partition[0].partition_error_code for one in results]

    def write(self, topic: str, value: str, sequence: int, version: int = 11) -> int:
        sent = batch([value], self.who, sequence, txn=True)
        return self.wire.produce(topic, sent, txn_id=self.name, version=version).error_code

    def end(self, commit: bool, version: int = 4, who: tuple[int, int] | None = None) -> Any:
        producer_id, epoch = who or self.who
        return self.wire.ask(
            EndTxnRequest(
                transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=commit
            ),
            version,
        )

    def end_2(self, commit: bool) -> None:
        answer = self.end(commit, END_2)
        assert answer.error_code == 0
        self.who = (answer.producer_id, answer.producer_epoch)

    def commit_offset(self, group: str, topic: str, offset: int, version: int) -> int:
        named = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        asked = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.who[0],
            producer_epoch=self.who[1],
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[named])],
        )
        return self.wire.ask(asked, version).topics[0].partitions[0].error_code


@pytest.fixture
def txn(wire: Wire) -> Txn:
    made = Txn(wire, new_name("txn"))
    assert made.init().error_code == 0
    return made


def committed(wire: Wire, group: str, topic: str) -> tuple[int, int]:
    """(offset, error) as a reader gets it that wants stable offsets only."""
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    answer = wire.ask(OffsetFetchRequest(groups=[asked], require_stable=True), 9)
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


def stable_end(wire: Wire, topic: str) -> int:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = wire.ask(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[asked]), 7)
    return answer.topics[0].partitions[0].offset


# --- version 1 -----------------------------------------------------------------------------------


def test_a_partition_that_was_not_added_is_refused_in_words_the_client_knows(address, txn, topic):
    create_topic(address, topic)
    assert txn.write(topic, "x", 0, version=10) == INVALID_STATE
    assert txn.write(topic, "x", 0, version=11) == ABORTABLE
    assert txn.add(topic) == [0]
    assert txn.write(topic, "x", 0, version=11) == 0
    assert txn.end(commit=True).error_code == 0
    assert read(address, topic, 1) == ["x"]


def test_adding_partitions_is_all_or_nothing(address, wire, txn, topic):
    create_topic(address, topic)
    assert txn.add(topic, topic + "-missing") == [NOT_ATTEMPTED, UNKNOWN_TOPIC]
    assert (
        wire.ask(DescribeTransactionsRequest(transactional_ids=[txn.name]))
        .transaction_states[0]
        .transaction_state
        == "Empty"
    )


def test_ends_are_answered_again_when_they_are_asked_again(address, txn, topic):
    create_topic(address, topic)
    txn.add(topic)
    assert txn.write(topic, "x", 0) == 0
    assert [txn.end(commit=True).error_code for _ in range(2)] == [0, 0]
    assert txn.end(commit=False).error_code == INVALID_STATE


@pytest.mark.parametrize(("version", "code"), [(1, INVALID_EPOCH), (3, FENCED)])
def test_a_fenced_owner_is_told_so_in_words_it_knows(address, txn, topic, version, code):
    create_topic(address, topic)
    with Wire(address) as other:
        assert Txn(other, txn.name).init().error_code == 0
    assert txn.add(topic, version=version) == [code]
    assert txn.end(commit=True, version=version).error_code == code
    assert txn.write(topic, "x", 0) == INVALID_EPOCH
    assert txn.init(version=3, expected=txn.who).error_code == INVALID_EPOCH
    assert txn.init(version=4, expected=txn.who).error_code == FENCED


def test_strangers_and_senseless_requests_are_refused(wire, txn):
    assert txn.end(commit=True, who=(txn.who[0] + 1000, 0)).error_code == INVALID_MAPPING
    assert Txn(wire, "nobody", (1, 0)).end(commit=True).error_code == INVALID_MAPPING
    asked = InitProducerIdRequest(transactional_id=txn.name, transaction_timeout_ms=2**31 - 1)
    assert wire.ask(asked, 5).error_code == INVALID_TIMEOUT


def test_a_group_that_was_not_added_is_refused(address, wire, txn, topic, group):
    create_topic(address, topic)
    assert txn.commit_offset(group, topic, 5, version=3) == INVALID_STATE
    assert txn.commit_offset(group, topic, 5, version=4) == ABORTABLE
    added = AddOffsetsToTxnRequest(
        transactional_id=txn.name, producer_id=txn.who[0], producer_epoch=txn.who[1], group_id=group
    )
    assert wire.ask(added, 4).error_code == 0
    assert txn.commit_offset(group, topic, 5, version=4) == 0
    assert txn.commit_offset(group, topic + "-missing", 5, version=4) == UNKNOWN_TOPIC
    assert committed(wire, group, topic) == (-1, UNSTABLE)
    assert txn.end(commit=True).error_code == 0
    assert committed(wire, group, topic) == (5, 0)


# --- version 2 -----------------------------------------------------------------------------------


def test_the_first_write_adds_the_partition_and_every_end_gives_a_new_epoch(address, txn, topic):
    create_topic(address, topic)
    first = txn.who
    assert txn.write(topic, "a", 0, PRODUCE_2) == 0
    txn.end_2(commit=True)
    assert txn.who == (first[0], first[1] + 1)
    assert txn.write(topic, "lost", 0, PRODUCE_2) == 0
    txn.end_2(commit=False)
    assert txn.write(topic, "b", 0, PRODUCE_2) == 0
    txn.end_2(commit=True)
    assert txn.who == (first[0], first[1] + 3)
    assert read(address, topic, 2) == ["a", "b"]


def test_a_late_end_of_one_transaction_cannot_end_the_next(address, wire, txn, topic):
    create_topic(address, topic)
    before = txn.who
    assert txn.write(topic, "a", 0, PRODUCE_2) == 0
    txn.end_2(commit=True)
    retried = txn.end(True, END_2, before)
    assert (retried.error_code, retried.producer_id, retried.producer_epoch) == (0, *txn.who)
    assert txn.write(topic, "b", 0, PRODUCE_2) == 0
    assert txn.end(True, END_2, before).error_code == FENCED
    assert stable_end(wire, topic) == 2
    txn.end_2(commit=False)
    assert read(address, topic, 1) == ["a"]


def test_a_write_that_comes_after_its_transaction_ended_is_refused(address, txn, topic):
    create_topic(address, topic)
    late = Txn(txn.wire, txn.name, txn.who)
    assert txn.write(topic, "a", 0, PRODUCE_2) == 0
    txn.end_2(commit=False)
    assert late.write(topic, "late", 1, PRODUCE_2) == INVALID_EPOCH
    create_topic(address, topic + "-other")
    assert late.write(topic + "-other", "late", 0, PRODUCE_2) == INVALID_EPOCH
    assert txn.write(topic + "-other", "not the first", 7, PRODUCE_2) == 45


def test_offsets_join_the_transaction_with_their_first_commit(address, wire, txn, topic, group):
    create_topic(address, topic)
    assert txn.commit_offset(group, topic, 7, COMMIT_2) == 0
    assert committed(wire, group, topic) == (-1, UNSTABLE)
    txn.end_2(commit=False)
    assert committed(wire, group, topic) == (-1, 0)
    assert txn.commit_offset(group, topic, 8, COMMIT_2) == 0
    txn.end_2(commit=True)
    assert committed(wire, group, topic) == (8, 0)


def test_an_owner_that_asks_for_a_new_epoch_gets_one_and_its_open_transaction_is_aborted(address, txn, topic):
    create_topic(address, topic)
    before = txn.who
    assert txn.write(topic, "lost", 0, PRODUCE_2) == 0
    assert txn.init(expected=before).error_code == 0
    assert txn.who == (before[0], before[1] + 1)
    assert txn.init(expected=before).error_code == 0, "a retry learns the same identity"
    assert txn.who == (before[0], before[1] + 1)
    assert txn.write(topic, "kept", 0, PRODUCE_2) == 0
    txn.end_2(commit=True)
    assert read(address, topic, 1) == ["kept"]


# --- brokers and admins --------------------------------------------------------------------------


def test_partitions_of_many_transactions_are_verified_in_one_request(address, wire, txn, topic):
    create_topic(address, topic)
    assert txn.write(topic, "x", 0, PRODUCE_2) == 0

    def verify(name: str, version: int) -> int:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=txn.name,
            producer_id=txn.who[0],
            producer_epoch=txn.who[1],
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=[0])],
        )
        (result,) = wire.ask(AddPartitionsToTxnRequest(transactions=[asked]), version).results_by_transaction
        return result.topic_results[0].results_by_partition[0].partition_error_code

    other = create_topic(address, topic + "-other")
    assert [verify(topic, 5), verify(other, 5), verify(other, 4)] == [0, ABORTABLE, INVALID_STATE]
    txn.end_2(commit=True)


def test_admins_see_transactions_and_producers(address, wire, txn, topic):
    create_topic(address, topic)
    assert txn.write(topic, "x", 0, PRODUCE_2) == 0
    (seen, missing) = wire.ask(
        DescribeTransactionsRequest(transactional_ids=[txn.name, "nobody"])
    ).transaction_states
    assert (seen.transaction_state, (seen.producer_id, seen.producer_epoch)) == ("Ongoing", txn.who)
    assert [(one.topic, one.partitions) for one in seen.topics] == [(topic, [0])]
    assert missing.error_code == NOT_FOUND

    def listed(**filters: Any) -> list[str]:
        return [
            one.transactional_id for one in wire.ask(ListTransactionsRequest(**filters)).transaction_states
        ]

    assert txn.name in listed()
    assert listed(state_filters=["Ongoing"], producer_id_filters=[txn.who[0]]) == [txn.name]
    assert txn.name not in listed(state_filters=["CompleteCommit"])
    assert txn.name in listed(transactional_id_pattern="txn-.*")
    assert wire.ask(ListTransactionsRequest(state_filters=["Odd"])).unknown_state_filters == ["Odd"]
    asked = DescribeProducersTopic(name=topic, partition_indexes=[0, 1])
    known, unknown = wire.ask(DescribeProducersRequest(topics=[asked])).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.current_txn_start_offset, producer.last_sequence) == (
        txn.who[0],
        0,
        0,
    )
    assert unknown.error_code == UNKNOWN_TOPIC
    txn.end_2(commit=True)


# --- the broker's death --------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_survives_the_broker_and_ends_as_its_owner_says(
    own_broker: Broker, topic, commit
):
    create_topic(own_broker.kafka, topic)
    with Wire(own_broker.kafka) as wire:
        txn = Txn(wire, "txn")
        assert txn.init().error_code == 0
        assert txn.write(topic, "before", 0, PRODUCE_2) == 0
        assert txn.commit_offset("group", topic, 1, COMMIT_2) == 0
    own_broker.kill()
    own_broker.restart()
    with Wire(own_broker.kafka) as wire:
        txn.wire = wire
        assert stable_end(wire, topic) == 0
        assert committed(wire, "group", topic) == (-1, UNSTABLE)
        assert txn.write(topic, "after", 1, PRODUCE_2) == 0
        txn.end_2(commit)
        assert until(lambda: stable_end(wire, topic)) == 3
        assert committed(wire, "group", topic) == ((1, 0) if commit else (-1, 0))
        assert wire.produce(topic, batch(["plain"])).error_code == 0
    expected = ["before", "after", "plain"] if commit else ["plain"]
    assert read(own_broker.kafka, topic, len(expected)) == expected
