"""Which right each group and transaction API asks for, and where its answer says that it is missing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.fronts.kafka.handlers import HANDLERS
from mainstem.fronts.kafka.session import Listener, Request, Session
from mainstem.kernel.log.log import LogOptions
from mainstem.wire.kafka import consumer_groups as cg
from mainstem.wire.kafka import group_admin as ga
from mainstem.wire.kafka import group_offsets as go
from mainstem.wire.kafka import groups as gr
from mainstem.wire.kafka import share_fetch as sf
from mainstem.wire.kafka import share_groups as sg
from mainstem.wire.kafka import share_offsets as so
from mainstem.wire.kafka import transaction_admin as ta
from mainstem.wire.kafka import transactions as tx
from mainstem.wire.kafka.apis import SPECS, ApiKey

TOPIC, GROUP, CLUSTER, TXN = 29, 30, 31, 53


class Without:
    """Everything is allowed but for one operation on one kind of resource."""

    def __init__(self, *denied: tuple[str, str]) -> None:
        self._denied = denied

    def allows(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        return (operation, kind) not in self._denied

    def allows_any(self, principal: str, host: str, operation: str, kind: str) -> bool:
        return (operation, kind) not in self._denied


def ask(folder: Any, access: Without, version: int, *messages: Any) -> Any:
    """The last message's answer, from a broker with one topic `t`."""

    async def run() -> Any:
        log = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
        broker = await Broker.open(BrokerOptions(str(folder), log=log, group_initial_delay_ms=0))
        await broker.create_topic("t")
        session = Session(Listener("kafka", broker, access), "127.0.0.1", ("127.0.0.1", 9092))
        answer = None
        for message in messages:
            name = type(message).__name__.removesuffix("Request")
            (key,) = [ApiKey(spec.key) for spec in SPECS.values() if spec.name == name]
            answer = await HANDLERS[key](Request(session, version, "me"), message)
        await broker.close()
        return answer

    return asyncio.run(run())


def commit_request() -> go.OffsetCommitRequest:
    at = go.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    named = go.OffsetCommitRequestTopic(name="t", partitions=[at])
    return go.OffsetCommitRequest(group_id="g", topics=[named])


def fetch_request() -> go.OffsetFetchRequest:
    named = go.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    return go.OffsetFetchRequest(groups=[go.OffsetFetchRequestGroup(group_id="g", topics=[named])])


def delete_request() -> go.OffsetDeleteRequest:
    named = go.OffsetDeleteRequestTopic(
        name="t", partitions=[go.OffsetDeleteRequestPartition(partition_index=0)]
    )
    return go.OffsetDeleteRequest(group_id="g", topics=[named])


def txn_commit_request() -> tx.TxnOffsetCommitRequest:
    at = tx.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    named = tx.TxnOffsetCommitRequestTopic(name="t", partitions=[at])
    return tx.TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=0, producer_epoch=0, topics=[named]
    )


def add_request() -> tx.AddPartitionsToTxnRequest:
    named = tx.AddPartitionsToTxnTopic(name="t", partitions=[0])
    return tx.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[named],
        transactions=[],
    )


def heartbeat_request() -> cg.ConsumerGroupHeartbeatRequest:
    return cg.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def share_heartbeat(epoch: int = 0) -> sg.ShareGroupHeartbeatRequest:
    return sg.ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["t"]
    )


def share_offsets_request() -> so.DescribeShareGroupOffsetsRequest:
    named = so.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
    return so.DescribeShareGroupOffsetsRequest(
        groups=[so.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[named])]
    )


def _error(answer: Any) -> int:
    return int(answer.error_code)


def _partition(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def _fetched_group(answer: Any) -> int:
    return int(answer.groups[0].error_code)


def _fetched_partition(answer: Any) -> int:
    return int(answer.groups[0].topics[0].partitions[0].error_code)


def _added(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


Case = tuple[str, str, int, Any, Callable[[Any], int], int]
CASES: list[Case] = [
    ("describe", "group", 2, gr.FindCoordinatorRequest(key="g"), _error, GROUP),
    ("describe", "transactional_id", 2, gr.FindCoordinatorRequest(key="x", key_type=1), _error, TXN),
    ("read", "group", 9, gr.JoinGroupRequest(group_id="g"), _error, GROUP),
    ("read", "group", 5, gr.SyncGroupRequest(group_id="g"), _error, GROUP),
    ("read", "group", 4, gr.HeartbeatRequest(group_id="g"), _error, GROUP),
    ("read", "group", 5, gr.LeaveGroupRequest(group_id="g"), _error, GROUP),
    ("read", "group", 9, commit_request(), _partition, GROUP),
    ("read", "topic", 9, commit_request(), _partition, TOPIC),
    ("describe", "group", 9, fetch_request(), _fetched_group, GROUP),
    ("describe", "topic", 9, fetch_request(), _fetched_partition, TOPIC),
    ("delete", "group", 0, delete_request(), _error, GROUP),
    ("describe", "group", 6, ga.DescribeGroupsRequest(groups=["g"]), _fetched_group, GROUP),
    ("read", "group", 1, heartbeat_request(), _error, GROUP),
    ("describe", "topic", 1, heartbeat_request(), _error, TOPIC),
    ("describe", "group", 1, cg.ConsumerGroupDescribeRequest(group_ids=["g"]), _fetched_group, GROUP),
    ("read", "group", 1, share_heartbeat(), _error, GROUP),
    ("describe", "topic", 1, share_heartbeat(), _error, TOPIC),
    ("describe", "group", 1, sg.ShareGroupDescribeRequest(group_ids=["g"]), _fetched_group, GROUP),
    ("read", "group", 2, sf.ShareFetchRequest(group_id="g", member_id="m"), _error, GROUP),
    ("read", "group", 2, sf.ShareAcknowledgeRequest(group_id="g", member_id="m"), _error, GROUP),
    ("describe", "group", 1, share_offsets_request(), _fetched_group, GROUP),
    ("read", "group", 0, so.AlterShareGroupOffsetsRequest(group_id="g"), _error, GROUP),
    ("delete", "group", 0, so.DeleteShareGroupOffsetsRequest(group_id="g"), _error, GROUP),
    (
        "cluster_action",
        "cluster",
        6,
        gr.FindCoordinatorRequest(key_type=2, coordinator_keys=["g:t:0"]),
        lambda answer: answer.coordinators[0].error_code,
        CLUSTER,
    ),
    ("write", "transactional_id", 5, tx.InitProducerIdRequest(transactional_id="x"), _error, TXN),
    ("write", "transactional_id", 3, add_request(), _added, TXN),
    ("write", "topic", 3, add_request(), _added, TOPIC),
    ("cluster_action", "cluster", 5, add_request(), _error, CLUSTER),
    (
        "write",
        "transactional_id",
        4,
        tx.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
        _error,
        TXN,
    ),
    ("read", "group", 4, tx.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"), _error, GROUP),
    ("write", "transactional_id", 5, tx.EndTxnRequest(transactional_id="x"), _error, TXN),
    ("write", "transactional_id", 5, txn_commit_request(), _partition, TXN),
    ("read", "group", 5, txn_commit_request(), _partition, GROUP),
    ("read", "topic", 5, txn_commit_request(), _partition, TOPIC),
    (
        "describe",
        "transactional_id",
        0,
        ta.DescribeTransactionsRequest(transactional_ids=["x"]),
        lambda answer: answer.transaction_states[0].error_code,
        TXN,
    ),
    (
        "read",
        "topic",
        0,
        ta.DescribeProducersRequest(topics=[ta.DescribeProducersTopic(name="t", partition_indexes=[0])]),
        _partition,
        TOPIC,
    ),
    (
        "delete",
        "group",
        2,
        ga.DeleteGroupsRequest(groups_names=["g"]),
        lambda answer: answer.results[0].error_code,
        GROUP,
    ),
]


@pytest.mark.parametrize(("operation", "kind", "version", "message", "code_in", "code"), CASES)
def test_who_lacks_the_right_is_told_for_which_kind_of_resource(
    tmp_path, operation, kind, version, message, code_in, code
):
    assert code_in(ask(tmp_path, Without((operation, kind)), version, message)) == code


def test_of_a_topic_that_may_not_be_read_nothing_is_lent(tmp_path):
    async def run() -> tuple[int, int]:
        log = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
        broker = await Broker.open(BrokerOptions(str(tmp_path), log=log))
        topic = await broker.create_topic("t")
        listener = Listener("kafka", broker, Without(("read", "topic")))
        request = Request(Session(listener, "127.0.0.1", ("127.0.0.1", 9092)), 2, "me")
        await HANDLERS[ApiKey.SHARE_GROUP_HEARTBEAT](request, share_heartbeat())
        part = sf.ShareFetchPartition(partition_index=0)
        wanted = sf.ShareFetchRequest(
            group_id="g",
            member_id="m",
            max_records=1,
            topics=[sf.ShareFetchTopic(topic_id=topic.id, partitions=[part])],
        )
        fetched = await HANDLERS[ApiKey.SHARE_FETCH](request, wanted)
        ack = sf.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
        acked = sf.AcknowledgePartition(partition_index=0, acknowledgement_batches=[ack])
        named = sf.AcknowledgeTopic(topic_id=topic.id, partitions=[acked])
        told = await HANDLERS[ApiKey.SHARE_ACKNOWLEDGE](
            request,
            sf.ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=1, topics=[named]),
        )
        await broker.close()
        codes = [answer.responses[0].partitions[0].error_code for answer in (fetched, told)]
        return codes[0], codes[1]

    assert asyncio.run(run()) == (TOPIC, TOPIC)


def test_an_idempotent_producer_needs_one_of_two_rights(tmp_path):
    plain = tx.InitProducerIdRequest(transactional_id=None)
    cluster, topic = ("idempotent_write", "cluster"), ("write", "topic")
    assert _error(ask(tmp_path / "a", Without(cluster), 5, plain)) == 0
    assert _error(ask(tmp_path / "b", Without(topic), 5, plain)) == 0
    assert _error(ask(tmp_path / "c", Without(cluster, topic), 5, plain)) == CLUSTER


def test_lists_show_what_may_be_seen(tmp_path):
    listing = ga.ListGroupsRequest()
    cluster, group = ("describe", "cluster"), ("describe", "group")
    for number, (access, seen) in enumerate(
        [(Without(cluster), ["g"]), (Without(group), ["g"]), (Without(cluster, group), [])]
    ):
        answer = ask(tmp_path / str(number), access, 9, commit_request(), listing)
        assert [one.group_id for one in answer.groups] == seen
    opened = tx.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    hidden = Without(("describe", "transactional_id"))
    answer = ask(tmp_path / "txn", hidden, 2, opened, ta.ListTransactionsRequest())
    assert answer.transaction_states == []
