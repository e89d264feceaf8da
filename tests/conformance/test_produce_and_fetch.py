"""The plainest things that clients do: kcat, a fetch that waits, a producer that wants no answer."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_kit import PATIENCE_S, Wire, batch, create_topic, new_name, read, take, until
from raw_kafka import Raw

from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.frames import decode_response, encode_request

NEVER_MS = 250_000  # the tests give up before


def kcat(address: str, *words: str, sent: str = "") -> str:
    run = subprocess.run(
        ["kcat", "-b", address, *words], input=sent, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not here: sh tools/kcat.sh says how")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_kcat_produces_and_consumes(address, topic, codec):
    create_topic(address, topic)
    lines = [f"key-{number}:value {number}" for number in range(100)]
    kcat(address, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, sent="\n".join(lines) + "\n")
    got = kcat(address, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k:%s\\n")
    assert got.splitlines() == [f"{offset} {line}" for offset, line in enumerate(lines)]


def test_a_fetch_that_waits_is_woken_by_what_is_produced(address, topic):
    create_topic(address, topic)
    spec = SPECS[ApiKey.FETCH]
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    message = spec.request(
        max_wait_ms=NEVER_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    with Raw(address, timeout_s=PATIENCE_S) as waiting, Wire(address) as writer:
        waiting.send(encode_request(spec, 11, 1, "waits", message))
        assert writer.produce(topic, batch(["news"])).error_code == 0
        _, answer = decode_response(spec, 11, waiting.receive_frame())
    (found,) = answer.responses[0].partitions
    assert (found.error_code, found.high_watermark) == (0, 1)
    assert b"news" in found.records


def test_a_consumer_that_waits_for_minutes_has_what_is_produced_meanwhile(address, topic):
    create_topic(address, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": new_name("reader"),
            "fetch.wait.max.ms": NEVER_MS,
            "socket.timeout.ms": 300_000,
        }
    )
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        for number in range(3):
            producer.produce(topic, str(number), partition=0)
            assert producer.flush(PATIENCE_S) == 0
            (message,) = take([consumer], 1)
            assert message.value() == str(number).encode()
    finally:
        consumer.close()


def test_what_wants_no_answer_arrives_though_its_producer_closes_at_once(address, topic):
    """Small batches that wait in line, and one that it takes a while to look into."""
    create_topic(address, topic, 2)
    options = {
        "bootstrap.servers": address,
        "acks": 0,
        "compression.type": "zstd",
        "message.max.bytes": 9_000_000,
    }
    large = Producer({**options, "linger.ms": 200, "batch.size": 8_000_000})
    for number in range(60):
        large.produce(topic, f"{number} ".encode() * 25_000, partition=0)
    one_by_one = Producer({**options, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(1000):
        one_by_one.produce(topic, str(number), partition=1)
    for producer in (large, one_by_one):
        assert producer.flush(PATIENCE_S) == 0
    del producer, large, one_by_one  # which closes their connections
    looking = Consumer({"bootstrap.servers": address, "group.id": new_name("looker")})
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    until(lambda: [looking.get_watermark_offsets(one, PATIENCE_S)[1] for one in places] == [60, 1000])
    looking.close()


def test_what_a_producer_wants_no_answer_for_arrives(address, topic):
    create_topic(address, topic)
    producer = Producer({"bootstrap.servers": address, "acks": 0, "linger.ms": 5})
    values = [str(number) for number in range(1000)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    assert read(address, topic, len(values)) == values
