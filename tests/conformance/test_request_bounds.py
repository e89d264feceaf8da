"""Requests that name very many things, or one thing many times."""

from __future__ import annotations

import struct

import pytest
from kafka_kit import new_name, until
from raw_kafka import Raw, header

from mainstem.testing import Broker
from mainstem.wire.kafka.apis import ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from mainstem.wire.kafka.metadata import MetadataRequestTopic
from mainstem.wire.kafka.offsets import ListOffsetsPartition, ListOffsetsTopic
from mainstem.wire.kafka.primitives import MOST_ELEMENTS
from mainstem.wire.kafka.topics import CreatableTopic
from mainstem.wire.kafka.transactions import AddPartitionsToTxnTopic, TxnOffsetCommitRequestPartition
from mainstem.wire.kafka.transactions import TxnOffsetCommitRequestTopic as TxnTopic

MOST_PARTITIONS = 50
INVALID_REQUEST, POLICY_VIOLATION, UNKNOWN_TOPIC = 42, 44, 3
IN_ONE_TURN = 100_000


@pytest.fixture(scope="module")
def broker():
    with Broker({"topics.max_partitions": MOST_PARTITIONS}, process=True) as running:
        yield running


@pytest.fixture
def raw(broker):
    with Raw(broker.kafka, timeout_s=60) as connection:
        yield connection


@pytest.fixture
def topic(raw):
    name = new_name("bounds")
    wanted = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    assert raw.ask(ApiKey.CREATE_TOPICS, 7, topics=wanted).topics[0].error_code == 0
    return name


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def assert_refused(broker, raw: Raw) -> None:
    assert raw.is_closed()
    log = broker._runner.log
    lines = until(lambda: [one for one in log.read_text().splitlines() if f"peer={raw.peer} " in one])
    assert f"more than {MOST_ELEMENTS} elements" in lines[0]


# --- how many ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "version", "before"),
    [
        (ApiKey.FIND_COORDINATOR, 6, b"\0"),
        (ApiKey.DESCRIBE_GROUPS, 6, b""),
        (ApiKey.DELETE_GROUPS, 2, b""),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, b""),
    ],
    ids=str,
)
def test_a_request_that_names_too_many_closes_the_connection(broker, raw, key, version, before):
    count = MOST_ELEMENTS + 1
    raw.send_frame(header(key, version) + b"\0" + before + varint(count + 1) + b"\1" * count + b"\0\0")
    assert_refused(broker, raw)


def test_elements_of_arrays_within_arrays_count_together(broker, raw):
    """Two topics, each with fewer partitions than a request may name."""
    half = MOST_ELEMENTS // 2
    of_topic = b"\0\1t" + struct.pack(">i", half) + b"\0" * 4 * half
    raw.send_frame(header(ApiKey.OFFSET_FETCH, 1) + b"\0\1g" + struct.pack(">i", 2) + of_topic * 2)
    assert_refused(broker, raw)


@pytest.mark.parametrize("version", [4, 12])
def test_a_fetch_of_more_partitions_than_a_request_may_name_closes_the_connection(broker, raw, version):
    count = MOST_ELEMENTS + 1
    if version == 4:
        body = struct.pack(">iiiibi", -1, 0, 1, 1, 0, 1) + b"\0\1t" + struct.pack(">i", count)
        body += bytes(16) * count
        raw.send_frame(header(ApiKey.FETCH, version) + body)
    else:
        # Within 8 MiB there is no room for so many partitions in this version, but for forgotten topics.
        body = struct.pack(">iiiibii", -1, 0, 1, 1, 0, 0, -1) + b"\1" + varint(count + 1) + b"\2t\1\0" * count
        raw.send_frame(header(ApiKey.FETCH, version) + b"\0" + body + b"\1\0")
    assert_refused(broker, raw)


# --- what is checked and journalled in one turn --------------------------------------------------


def test_an_offset_commit_of_very_many_partitions_is_refused_and_commits_nothing(raw, topic):
    def commit(count: int) -> set[int]:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=count)] * count
        wanted = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        answer = raw.ask(
            ApiKey.OFFSET_COMMIT, 8, group_id=topic, generation_id_or_member_epoch=-1, topics=wanted
        )
        assert len(answer.topics[0].partitions) == count
        return {one.error_code for one in answer.topics[0].partitions}

    assert commit(5) == {0}
    assert commit(IN_ONE_TURN + 1) == {INVALID_REQUEST}
    asked = [
        OffsetFetchRequestGroup(
            group_id=topic, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        )
    ]
    (group,) = raw.ask(ApiKey.OFFSET_FETCH, 9, groups=asked).groups
    assert group.topics[0].partitions[0].committed_offset == 5


def test_a_transaction_takes_no_more_partitions_and_offsets_in_one_request_than_fit_in_a_turn(raw, topic):
    producer = raw.ask(
        ApiKey.INIT_PRODUCER_ID, 4, transactional_id=topic, transaction_timeout_ms=60_000, producer_id=-1
    )
    many = [AddPartitionsToTxnTopic(name=topic, partitions=[0] * (IN_ONE_TURN + 1))]
    added = raw.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=topic,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=many,
    )
    (result,) = added.results_by_topic_v3_and_below
    assert {one.partition_error_code for one in result.results_by_partition} == {INVALID_REQUEST}
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)] * (IN_ONE_TURN + 1)
    committed = raw.ask(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        transactional_id=topic,
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnTopic(name=topic, partitions=partitions)],
    )
    assert {one.error_code for one in committed.topics[0].partitions} == {INVALID_REQUEST}


# --- repeats -------------------------------------------------------------------------------------


def test_a_fetch_that_names_a_partition_again_is_answered_once_as_it_asked_last(raw, topic):
    def wanted(partition: int, offset: int) -> FetchPartition:
        return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1000)

    answer = raw.ask(
        ApiKey.FETCH,
        4,
        max_wait_ms=0,
        max_bytes=1000,
        topics=[
            FetchTopic(topic=topic, partitions=[wanted(0, 7), wanted(3, 0)]),
            FetchTopic(topic=topic, partitions=[wanted(0, 0)]),
        ],
    )
    (of_topic,) = answer.responses
    codes = [(one.partition_index, one.error_code) for one in of_topic.partitions]
    assert codes == [(0, 0), (3, UNKNOWN_TOPIC)]


def test_a_group_that_is_named_many_times_is_described_once(raw):
    answer = raw.ask(ApiKey.DESCRIBE_GROUPS, 6, groups=["a", "b", "a"])
    assert [group.group_id for group in answer.groups] == ["a", "b"]


def test_list_offsets_of_a_partition_named_twice_is_an_invalid_request_for_that_one(raw, topic):
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in (0, 0, 1)]
    answer = raw.ask(
        ApiKey.LIST_OFFSETS, 7, replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )
    codes = [(one.partition_index, one.error_code) for one in answer.topics[0].partitions]
    assert codes == [(0, INVALID_REQUEST), (1, UNKNOWN_TOPIC)]


# --- automatic creation --------------------------------------------------------------------------


def test_automatic_creation_makes_no_more_partitions_for_a_request_than_create_topics(raw):
    names = [new_name("auto") for _ in range(MOST_PARTITIONS + 10)]
    topics = [MetadataRequestTopic(name=name) for name in (*names, names[0])]
    first = raw.ask(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=True).topics
    assert [one.name for one in first] == names
    assert [one.error_code for one in first] == [0] * MOST_PARTITIONS + [POLICY_VIOLATION] * 10
    again = raw.ask(ApiKey.METADATA, 9, topics=topics, allow_auto_topic_creation=True).topics
    assert {one.error_code for one in again} == {0}
