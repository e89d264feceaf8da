"""ListOffsets: by time and by name, of what is committed, trimmed, or not known in a version."""

from __future__ import annotations

import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka_kit import PATIENCE_S, Wire, create_topic, new_name
from raw_kafka import Raw

from mainstem.client import Client, ClientSettings, parse_bootstrap, sinks
from mainstem.client import TopicPartition as Place
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.wire.kafka.apis import ApiKey
from mainstem.wire.kafka.offsets import ListOffsetsPartition, ListOffsetsTopic
from mainstem.wire.kafka.topics import DeleteRecordsPartition, DeleteRecordsTopic

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
COMMITTED = 1
UNSUPPORTED_VERSION = 35
NONE = (0, -1, -1)
T0 = 1_700_000_000_000


@pytest.fixture
def raw(address):
    with Raw(address) as connection:
        yield connection


@pytest.fixture
def made(address, topic) -> str:
    return create_topic(address, topic)


def ask(raw: Raw, topic: str, timestamp: int, version: int = 11, isolation: int = 0) -> tuple[int, int, int]:
    """(error, offset, timestamp)"""
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = raw.ask(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation, topics=[asked])
    (found,) = answer.topics[0].partitions
    return found.error_code, found.offset, found.timestamp


def write(wire: Wire, topic: str, *times_ms: int) -> None:
    """One batch."""
    records = [Record(0, T0 + ms, None, b"value") for ms in times_ms]
    assert wire.produce(topic, bytes(encode_batch(records))).error_code == 0


def trim(raw: Raw, topic: str, offset: int) -> None:
    wanted = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])]
    (answer,) = raw.ask(ApiKey.DELETE_RECORDS, 2, topics=wanted, timeout_ms=30_000).topics
    assert [(p.low_watermark, p.error_code) for p in answer.partitions] == [(offset, 0)]


def test_the_greatest_timestamp_is_found_and_the_first_record_that_has_it(wire, raw, made):
    assert ask(raw, made, MAX_TIMESTAMP) == NONE
    write(wire, made, 5, 9)
    write(wire, made, 7, 9, 9)
    write(wire, made, 8)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 1, T0 + 9)


def test_once_the_record_with_the_greatest_timestamp_is_trimmed_another_one_is(wire, raw, made):
    write(wire, made, 50)
    write(wire, made, 90, 10)
    for ms in (20, 40, 40, 30):
        write(wire, made, ms)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 1, T0 + 90)
    trim(raw, made, 2)  # in the middle of its batch: 10 is left of it
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 4, T0 + 40)
    trim(raw, made, 3)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 4, T0 + 40)
    trim(raw, made, 5)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 5, T0 + 40)
    trim(raw, made, 6)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 6, T0 + 30)
    trim(raw, made, 7)
    assert ask(raw, made, MAX_TIMESTAMP) == NONE


def test_of_a_batch_that_is_trimmed_in_part_no_record_below_the_start_of_the_log_is_told(wire, raw, made):
    write(wire, made, 90, 10, 90, 70)
    trim(raw, made, 1)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 2, T0 + 90)
    trim(raw, made, 3)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 3, T0 + 70)


def test_what_was_staged_for_a_sink_and_appeared_later_counts_with_its_own_times(address, wire, raw, made):
    write(wire, made, 90)
    with Client(ClientSettings(parse_bootstrap(address))) as client:
        sinks.prepare(client)
        staged = sinks.stage(client, encode_batch([Record(0, T0 + ms, None, b"") for ms in (20, 60, 50)]))
        assert sinks.publish(client, new_name("sink"), 0, {Place(made, 0): [staged]})
    write(wire, made, 40)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 0, T0 + 90)
    trim(raw, made, 1)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 2, T0 + 60)
    trim(raw, made, 3)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 3, T0 + 50)
    trim(raw, made, 4)
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 4, T0 + 40)


def test_what_is_trimmed_stays_trimmed_for_times_after_a_restart(own_broker):
    topic = create_topic(own_broker.kafka, "trimmed")
    with Wire(own_broker.kafka) as wire, Raw(own_broker.kafka) as raw:
        write(wire, topic, 90)
        write(wire, topic, 40, 20)
        trim(raw, topic, 1)
    own_broker.restart()
    with Raw(own_broker.kafka) as raw:
        assert ask(raw, topic, MAX_TIMESTAMP) == (0, 1, T0 + 40)


def test_the_greatest_timestamp_in_an_open_transaction_is_nothing_to_a_committed_reader(address, raw, made):
    producer = Producer({"bootstrap.servers": address, "transactional.id": new_name("txn")})
    producer.init_transactions(PATIENCE_S)
    admin = AdminClient({"bootstrap.servers": address})

    def latest(isolation: IsolationLevel) -> int:
        place = TopicPartition(made, 0)
        asked = admin.list_offsets({place: OffsetSpec.max_timestamp()}, isolation_level=isolation)
        return asked[place].result(PATIENCE_S).offset

    producer.begin_transaction()
    producer.produce(made, b"open", partition=0, timestamp=T0 + 10)
    assert producer.flush(PATIENCE_S) == 0
    assert ask(raw, made, MAX_TIMESTAMP) == (0, 0, T0 + 10)
    assert ask(raw, made, MAX_TIMESTAMP, isolation=COMMITTED) == NONE
    assert latest(IsolationLevel.READ_UNCOMMITTED) == 0
    assert latest(IsolationLevel.READ_COMMITTED) == -1
    producer.commit_transaction(PATIENCE_S)
    assert ask(raw, made, MAX_TIMESTAMP, isolation=COMMITTED)[1] >= 0


@pytest.mark.parametrize(
    ("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99), (-(2**63), 99)]
)
def test_a_name_for_an_offset_is_taken_from_the_version_on_that_has_it(raw, made, timestamp, since):
    for version in range(1, 12):
        error, offset, _ = ask(raw, made, timestamp, version=version)
        assert (error == 0) == (version >= since), version
        if error:
            assert (error, offset) == (UNSUPPORTED_VERSION, -1)


@pytest.mark.parametrize("version", range(1, 12))
def test_first_next_and_timed_offsets_are_told_in_every_version(wire, raw, made, version):
    write(wire, made, 5, 9)
    assert ask(raw, made, EARLIEST, version=version) == (0, 0, -1)
    assert ask(raw, made, LATEST, version=version) == (0, 2, -1)
    assert ask(raw, made, T0 + 6, version=version) == (0, 1, T0 + 9)
    assert ask(raw, made, T0 + 10, version=version) == NONE
