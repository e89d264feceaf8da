"""A producer that sends the same head again goes a shorter way in the broker: nobody may notice."""

from __future__ import annotations

import importlib
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka_kit import take
from raw_kafka import Raw

from mainstem.client import Client, ClientSettings, parse_bootstrap
from mainstem.client.admin import create_topic, delete_topic
from mainstem.kernel.log import stage
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.frames import encode_request
from mainstem.wire.kafka.metadata import MetadataRequestTopic
from mainstem.wire.kafka.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CORRUPT, UNKNOWN_TOPIC, OUT_OF_ORDER = 2, 3, 45
REPEATS = 4


def own_client(address: str) -> Client:
    return Client(ClientSettings(parse_bootstrap(address)))


def batch(value: bytes = b"v", **fields) -> bytes:
    return bytes(encode_batch([Record(0, int(time.time() * 1000), None, value)], **fields))


def request(topic: str, records: bytes, partition: int = 0) -> ProduceRequest:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])
    return ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[data])


def produce(raw: Raw, topic: str, records: bytes, *, version: int = 9, partition: int = 0, topic_id=b""):
    """The one partition's answer."""
    data = TopicProduceData(topic, topic_id, partition_data=[PartitionProduceData(partition, records)])
    answer = raw.ask(ApiKey.PRODUCE, version, acks=-1, timeout_ms=5000, topic_data=[data])
    (found,) = answer.responses[0].partition_responses
    return found


def id_of(raw: Raw, topic: str) -> bytes:
    asked = [MetadataRequestTopic(name=topic)]
    return raw.ask(ApiKey.METADATA, 12, topics=asked, allow_auto_topic_creation=False).topics[0].topic_id


@pytest.fixture
def made(address, topic) -> str:
    with own_client(address) as client:
        create_topic(client, topic, partitions=3)
    return topic


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_answers_the_repeats_as_it_answers_the_first(address, made, version):
    """Of all sizes: the length of a batch takes more bytes as it grows."""
    with Raw(address) as raw:
        topic_id = id_of(raw, made)
        answers = [
            produce(raw, made, batch(b"v" * size), version=version, topic_id=topic_id)
            for size in (1, 1, 200, 100_000, 1)
        ]
        assert [found.base_offset for found in answers] == [0, 1, 2, 3, 4]
        for found in answers[1:]:
            found.base_offset = 0
        assert answers == [answers[0]] * 5


def test_partitions_and_topics_are_told_apart(address, made, topic):
    other = f"{topic}-with-a-longer-name"
    with own_client(address) as client:
        create_topic(client, other)
    with Raw(address) as raw:
        for offset in range(REPEATS):
            for partition in range(3):
                found = produce(raw, made, batch(), partition=partition)
                assert (found.index, found.base_offset) == (partition, offset)
            assert produce(raw, other, batch()).base_offset == offset
        for version in (7, 9, 7):
            produce(raw, made, batch(), version=version)
        assert produce(raw, made, batch()).base_offset == REPEATS + 3


def test_what_is_wrong_with_a_repeat_is_said_as_always(address, made):
    with Raw(address) as raw:
        for _ in range(REPEATS):
            produce(raw, made, batch())
        damaged = bytearray(batch())
        damaged[-1] ^= 1
        found = produce(raw, made, bytes(damaged))
        assert (found.error_code, found.base_offset) == (CORRUPT, -1)
        assert "crc" in found.error_message
        assert produce(raw, made, batch()).base_offset == REPEATS
        assert produce(raw, made, batch(), partition=3).error_code == UNKNOWN_TOPIC


def test_a_retry_of_a_repeat_gets_the_first_ones_offset(address, made):
    with Raw(address) as raw:
        producer_id = raw.ask(
            ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=0
        ).producer_id
        own = {"producer_id": producer_id, "producer_epoch": 0}
        sent = [batch(b"%d" % number, **own, base_sequence=number) for number in range(REPEATS)]
        assert [produce(raw, made, records).base_offset for records in sent] == list(range(REPEATS))
        assert [produce(raw, made, records).base_offset for records in sent] == list(range(REPEATS))
        ahead = batch(b"x", **own, base_sequence=REPEATS + 5)
        assert produce(raw, made, ahead).error_code == OUT_OF_ORDER


def test_a_topic_deleted_and_made_anew_is_another_one(address, made):
    with Raw(address) as raw, own_client(address) as client:
        for _ in range(REPEATS):
            produce(raw, made, batch())
        delete_topic(client, made)
        assert produce(raw, made, batch()).error_code == UNKNOWN_TOPIC
        create_topic(client, made)
        assert [produce(raw, made, batch()).base_offset for _ in range(2)] == [0, 1]


def test_the_long_way_is_gone_once_for_each_head(monkeypatch):
    parsed: list[int] = []
    handler = importlib.import_module("mainstem.fronts.kafka.handlers.produce")
    real = handler.parse_produce
    monkeypatch.setattr(handler, "parse_produce", lambda *a: parsed.append(1) or real(*a))
    with Broker() as broker, Raw(broker.kafka) as raw:
        with own_client(broker.kafka) as client:
            create_topic(client, "orders", partitions=2)
        for _ in range(5):
            for partition in range(2):
                produce(raw, "orders", batch(), partition=partition)
        assert len(parsed) == 2
        raw.send(encode_request(SPECS[ApiKey.PRODUCE], 9, 99, "long" * 500, request("orders", batch())))
        raw.receive_frame()
        assert len(parsed) == 3
        raw.send(encode_request(SPECS[ApiKey.PRODUCE], 9, 99, "long" * 500, request("orders", batch())))
        raw.receive_frame()
        assert len(parsed) == 4, "a head of two kilobytes is not worth keeping"


def test_requests_of_any_size_that_follow_each_other_keep_their_bytes(monkeypatch):
    """Large ones are copied on their way, and the memory that they came in takes the next ones."""
    staged: list[int] = []
    give_back = stage.Stages.give_back

    def noted(own: stage.Stages, used: stage.Stage) -> None:
        staged.append(used.count)
        give_back(own, used)

    monkeypatch.setattr(stage.Stages, "give_back", noted)
    with Broker({"journal.cached_bytes": 1 << 20}) as broker:
        with own_client(broker.kafka) as client:
            create_topic(client, "orders", partitions=3)
        with ThreadPoolExecutor(3) as producers:
            sent = list(producers.map(lambda number: send_many(broker.kafka, number), range(3)))
        for partition, values in enumerate(sent):
            assert stored(broker.kafka, partition, len(values)) == values
    assert sum(staged) > 50, "most of the large ones were copied"


def send_many(address: str, partition: int, count: int = 120, in_flight: int = 8) -> list[bytes]:
    """What was sent to the partition, one request a value, several under way at a time."""
    chance = random.Random(partition)
    values = [chance.randbytes(chance.choice([10, 3000, 40_000, 90_000, 200_000])) for _ in range(count)]
    with Raw(address) as raw:
        for number, value in enumerate(values):
            sent = request("orders", batch(value), partition)
            raw.send(encode_request(SPECS[ApiKey.PRODUCE], 9, number, "many", sent))
            if number >= in_flight:
                assert raw.receive_frame()
        for _ in range(in_flight):
            assert raw.receive_frame()
    return values


def stored(address: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("orders", partition, 0)])
    try:
        return [message.value() for message in take([consumer], count)]
    finally:
        consumer.close()
