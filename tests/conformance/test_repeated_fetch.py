"""A consumer that asks on and on goes a shorter way in the broker: nobody may notice."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka_kit import create_topic, until
from raw_kafka import Raw

from mainstem.client import Client, ClientSettings, parse_bootstrap
from mainstem.client.admin import create_topic as create
from mainstem.client.admin import delete_topic
from mainstem.model.batch import place_batch
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.configs import IncrementalAlterableConfig, IncrementalAlterConfigsResource
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.frames import decode_response, encode_request
from mainstem.wire.kafka.metadata import MetadataRequestTopic
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData
from mainstem.wire.kafka.topics import DeleteRecordsPartition, DeleteRecordsTopic

OUT_OF_RANGE, UNKNOWN_TOPIC, UNKNOWN_EPOCH, UNSUPPORTED_COMPRESSION = 1, 3, 75, 76
LARGE, SMALL = bytes(range(256)) * 800, b"small"  # 200 KiB
TOPIC_IDS_SINCE = 13


class LongWays:
    """Fetch requests that were decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        handler = importlib.import_module("mainstem.fronts.kafka.handlers.fetch")
        parse = handler.parse_fetch

        def counted(*arguments):
            self.count += 1
            return parse(*arguments)

        monkeypatch.setattr(handler, "parse_fetch", counted)


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> LongWays:
    return LongWays(monkeypatch)


@pytest.fixture
def broker(long_ways: LongWays) -> Iterator[Broker]:
    """In this process, so that it can be watched."""
    with Broker() as running:
        yield running


def produce(raw: Raw, topic: str, values: list[bytes], first: int = 0) -> list[bytes]:
    """One batch for each value; as the broker must give them back."""
    batches = []
    for offset, value in enumerate(values, first):
        batch = bytearray(encode_batch([Record(0, int(time.time() * 1000), b"k", value)]))
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, bytes(batch))])
        answer = raw.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=[data])
        (done,) = answer.responses[0].partition_responses
        assert (done.error_code, done.base_offset) == (0, offset)
        place_batch(batch, offset, 0)
        batches.append(bytes(batch))
    return batches


def wanted(topic: str | bytes, offset: int, max_bytes: int = 300_000, leader_epoch: int = -1, **fields):
    """A request for one partition: 300,000 bytes are one large batch."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    name = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
    topics = [FetchTopic(**name, partitions=[partition])]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 64 << 20, "topics": topics} | fields


def fetch(raw: Raw, topic: str | bytes, offset: int, *limit: int, version: int = 11, **fields):
    """The one partition's answer."""
    answer = raw.ask(ApiKey.FETCH, version, **wanted(topic, offset, *limit, **fields))
    (found,) = answer.responses[0].partitions
    return found


def id_of(raw: Raw, topic: str) -> bytes:
    asked = [MetadataRequestTopic(name=topic)]
    return raw.ask(ApiKey.METADATA, 12, topics=asked, allow_auto_topic_creation=False).topics[0].topic_id


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_answered_as_one_that_is_asked_for_the_first_time(
    broker, long_ways, version, isolation_level
):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        produce(raw, "t", [LARGE] * 6)
        topic = id_of(raw, "t") if version >= TOPIC_IDS_SINCE else "t"
        options = {"version": version, "isolation_level": isolation_level}
        long_ways.count = 0
        answers = [fetch(raw, topic, offset, **options) for offset in range(6)]
        assert long_ways.count == 2, "all but the first two are answered by the short way"
    for offset, answer in enumerate(answers):
        with Raw(broker.kafka) as fresh:
            assert answer == fetch(fresh, topic, offset, **options)


def test_as_many_batches_come_at_once_as_were_asked_for(broker, long_ways):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [LARGE] * 12)
        size = len(batches[0])
        for limit, count in ((1, 1), (size, 1), (2 * size - 1, 1), (2 * size, 2), (3 * size, 3)):
            for first in range(0, 12, count):
                found = fetch(raw, "t", first, limit)
                assert bytes(found.records) == b"".join(batches[first : first + count])


def test_small_batches_among_large_ones_come_in_their_turn(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        values = [LARGE, LARGE, SMALL, LARGE, SMALL, SMALL, LARGE, LARGE, LARGE, SMALL]
        batches = produce(raw, "t", values)
        for limit in (1, 250_000, 450_000, 1 << 20):
            with Raw(broker.kafka) as fresh:
                taken, offset = [], 0
                while offset < len(values):
                    found = bytes(fetch(fresh, "t", offset, limit).records)
                    count = next(n for n in range(1, 11) if len(found) == sum(map(len, batches[offset:][:n])))
                    taken.append(found)
                    offset += count
                assert b"".join(taken) == b"".join(batches)
                assert fetch(fresh, "t", 0, 1 << 20).records == fetch(raw, "t", 0, 1 << 20).records


def test_jumps_back_and_ahead_are_followed(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        batches = produce(raw, "t", [b"%d" % number + LARGE for number in range(8)])
        for offset in (0, 1, 2, 7, 3, 4, 0, 5, 6, 7, 7, 0, 1):
            assert bytes(fetch(raw, "t", offset).records) == batches[offset]


def test_at_the_end_it_waits_and_gets_what_comes(broker):
    create_topic(broker.kafka, "t")
    spec = SPECS[ApiKey.FETCH]
    with Raw(broker.kafka) as raw, Raw(broker.kafka) as writer:
        batches = produce(writer, "t", [LARGE, LARGE])
        for offset in range(2):
            assert bytes(fetch(raw, "t", offset, max_wait_ms=5000).records) == batches[offset]
        for offset in range(2, 6):
            asked = spec.request(**wanted("t", offset, max_wait_ms=20_000))
            raw.send(encode_request(spec, 11, offset, "raw", asked))
            (batch,) = produce(writer, "t", [LARGE], offset)
            _, answer = decode_response(spec, 11, raw.receive_frame())
            assert bytes(answer.responses[0].partitions[0].records) == batch
            assert bytes(fetch(raw, "t", offset - 1).records) == batches[-1]
            batches.append(batch)


def test_what_is_not_there_any_more_is_out_of_range(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw, Raw(broker.kafka) as admin:
        produce(raw, "t", [LARGE] * 5)
        assert [fetch(raw, "t", offset).error_code for offset in range(3)] == [0, 0, 0]
        trimmed = [DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(0, 5)])]
        admin.ask(ApiKey.DELETE_RECORDS, 2, topics=trimmed, timeout_ms=5000)
        assert fetch(raw, "t", 3).error_code == OUT_OF_RANGE
        assert fetch(raw, "t", 6).error_code == OUT_OF_RANGE


def test_a_topic_deleted_and_made_anew_is_another_one(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw, Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
        produce(raw, "t", [LARGE] * 4)
        assert [fetch(raw, "t", offset).error_code for offset in range(2)] == [0, 0]
        delete_topic(client, "t")
        assert fetch(raw, "t", 2).error_code == UNKNOWN_TOPIC
        create(client, "t")
        assert fetch(raw, "t", 2).error_code == OUT_OF_RANGE
        (batch,) = produce(raw, "t", [b"new" + LARGE])
        assert bytes(fetch(raw, "t", 0).records) == batch


def test_another_leader_epoch_is_refused(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        produce(raw, "t", [LARGE] * 4)
        for offset in range(3):
            assert fetch(raw, "t", offset, leader_epoch=0).error_code == 0
        assert fetch(raw, "t", 3, leader_epoch=7).error_code == UNKNOWN_EPOCH


def test_aborted_transactions_are_told(broker):
    create_topic(broker.kafka, "t")
    large = {"bootstrap.servers": broker.kafka, "message.max.bytes": 4 << 20}
    producer = Producer({**large, "transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(6):
        producer.produce("t", value=LARGE)
        producer.flush()
    producer.abort_transaction()
    with Raw(broker.kafka) as raw:
        for offset in range(6):
            found = fetch(raw, "t", offset, isolation_level=1)
            assert [told.first_offset for told in found.aborted_transactions] == [0]
            assert fetch(raw, "t", offset).aborted_transactions is None


def test_what_was_merged_away_meanwhile_is_found_where_it_lies_now():
    settings = {
        "journal.file_bytes": "4 MiB",
        "journal.reserve_bytes": "64 KiB",
        "merge.delay_ms": 0,
        "snapshot.interval_ms": 1000,
    }
    with Broker(settings) as broker:
        create_topic(broker.kafka, "t")
        with Raw(broker.kafka) as raw:
            batches = produce(raw, "t", [b"%03d" % number + LARGE for number in range(100)])
            for offset in range(3):  # it knows by now where the next ones lie
                assert bytes(fetch(raw, "t", offset).records) == batches[offset]
            first = broker.data / "files" / "0000000001.journal"
            until(lambda: not first.exists(), "the first file to be merged away")
            for offset in range(3, 100):
                assert bytes(fetch(raw, "t", offset).records) == batches[offset]


def test_a_topic_that_becomes_zstd_is_refused_to_who_cannot_read_that(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        produce(raw, "t", [LARGE] * 6)
        assert [fetch(raw, "t", offset, version=9).error_code for offset in range(3)] == [0] * 3
        change = IncrementalAlterableConfig(name="compression.type", config_operation=0, value="zstd")
        resource = IncrementalAlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        assert fetch(raw, "t", 3, version=9).error_code == UNSUPPORTED_COMPRESSION
        assert fetch(raw, "t", 3, version=10).error_code == 0


def test_partitions_that_are_asked_for_in_turn_leave_no_route_behind(broker, long_ways, monkeypatch):
    create_topic(broker.kafka, "t")
    create_topic(broker.kafka, "u")
    laid_out = []  # answers of routes that were made
    module = importlib.import_module("mainstem.fronts.kafka.repeated_fetch")
    encode = module.encode_fetch_response
    monkeypatch.setattr(module, "encode_fetch_response", lambda *a: laid_out.append(1) or encode(*a))
    with Raw(broker.kafka) as raw:
        batches = {topic: produce(raw, topic, [LARGE] * 4) for topic in "tu"}
        for offset in range(4):
            for topic in "tu":
                assert bytes(fetch(raw, topic, offset).records) == batches[topic][offset]
    assert laid_out == []


def test_frames_of_nothing_after_a_consumer_went_on_are_no_bug_of_the_broker(broker):
    create_topic(broker.kafka, "t")
    with Raw(broker.kafka) as raw:
        produce(raw, "t", [LARGE] * 4)
    for garbage in (b"\xff" * 80, b"\0", b"\0\1", b""):
        with Raw(broker.kafka) as raw:
            for offset in range(3):
                assert fetch(raw, "t", offset).error_code == 0
            raw.send_frame(garbage)
            assert raw.is_closed()
    with Raw(broker.kafka) as raw:
        assert fetch(raw, "t", 3).error_code == 0
