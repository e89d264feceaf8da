"""Topics that say how their batches are compressed, and refusals that name the records at fault."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_kit import Wire, take

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.model.batch import iter_batches
from mainstem.model.records import Record, encode_batch
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic

CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE = 87, 76


def make_topic(address, name, **configs):
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config=configs)
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([topic])[name].result(30)


@pytest.mark.parametrize("config", CODECS)
def test_a_topic_keeps_its_batches_compressed_as_it_says(address, topic, group, config):
    make_topic(address, topic, **{"compression.type": config})
    sent = []
    for codec in ("none", "gzip", "zstd"):
        options = {"compression.type": codec, "enable.idempotence": True}
        producer = Producer({"bootstrap.servers": address, **options})
        for number in range(20):
            sent.append(f"{codec} {number} {'x' * 100}")
            producer.produce(topic, sent[-1])
        assert producer.flush(30) == 0
    options = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": address, **options})
    consumer.subscribe([topic])
    assert [message.value().decode() for message in take([consumer], len(sent))] == sent
    consumer.close()
    assert codecs(address, topic) == {CODECS[config]}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_that_grow_large_are_taken_in_order_and_once(address, topic, group, codec):
    """More than the broker looks into at once; small ones follow each of them."""
    make_topic(address, topic)
    options = {"compression.type": codec, "enable.idempotence": True, "message.max.bytes": 8_000_000}
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, **options})
    sent = []
    for number in range(12):
        sent.append(f"{number} " + "grows " * (600_000 if number % 3 == 0 else 1))
        producer.produce(topic, sent[-1])
        producer.poll(0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert [message.value().decode() for message in take([consumer], len(sent))] == sent
    consumer.close()


def codecs(address, topic):
    place = TopicPartition(topic, 0)
    with Client(ClientSettings(parse_bootstrap(address))) as client:
        (fetched,) = client.fetch({place: 0})
        return {header.codec for _, header in iter_batches(fetched.records)}


@pytest.mark.parametrize("version", [3, 6])
def test_a_client_that_is_older_than_zstd_may_not_send_it(wire: Wire, address, topic, version):
    make_topic(address, topic)
    record = Record(0, 1_000_000, b"key", b"value")
    # The plain one goes first: what comes after it on the same connection is checked all the same.
    assert wire.produce(topic, bytes(encode_batch([record])), version=version).error_code == 0
    zstd = bytes(encode_batch([record], codec=CODECS["zstd"]))
    assert wire.produce(topic, zstd, version=version).error_code == UNSUPPORTED_COMPRESSION_TYPE
    assert wire.produce(topic, zstd, version=7).error_code == 0


def test_a_client_that_is_older_than_zstd_gets_nothing_of_a_topic_that_is_all_zstd(
    wire: Wire, address, topic
):
    make_topic(address, topic, **{"compression.type": "zstd"})
    wire.produce(topic, bytes(encode_batch([Record(0, 1_000_000, b"key", b"value")])))
    assert fetched_code(wire, topic, 9) == UNSUPPORTED_COMPRESSION_TYPE
    assert fetched_code(wire, topic, 10) == 0


def fetched_code(wire: Wire, topic: str, version: int) -> int:
    wanted = [FetchTopic(topic=topic, partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])]
    answer = wire.ask(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=wanted), version)
    return int(answer.responses[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [8, 9, 12])
def test_records_without_a_key_are_named_where_a_key_is_needed(wire: Wire, address, topic, version):
    make_topic(address, topic, **{"cleanup.policy": "compact"})
    keys = [None if number in (1, 4) else b"key" for number in range(6)]
    sent = encode_batch([Record(0, 1_000_000, key, b"value") for key in keys])
    answer = wire.produce(topic, bytes(sent), version=version)
    assert answer.error_code == INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 4]
    assert "no key" in answer.error_message
