"""A damaged batch in a merged file: what is before it arrives, and clients hear of it instead of waiting."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kafka_kit import PATIENCE_S, Wire, create_topic, new_name, until
from share_kit import ACCEPT, Sharer, configure

from mainstem.testing.broker import Broker
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic

TOPIC, COUNT, BAD = "damaged", 300, 200
CORRUPT_MESSAGE = 2
MERGED_SOON = {
    "journal.file_bytes": "1 MiB",
    "snapshot.journal_bytes": "1 MiB",
    "snapshot.interval_ms": 1000,
    "merge.delay_ms": 0,
    "merge.level0_files": 2,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that was stopped when a batch in the middle of a topic was damaged."""
    with Broker(MERGED_SOON, process=True) as broker:
        for topic in (TOPIC, "filler"):
            create_topic(broker.kafka, topic)
        options = {"bootstrap.servers": broker.kafka, "linger.ms": 0}
        one_by_one = Producer({**options, "batch.num.messages": 1})
        for number in range(COUNT):
            one_by_one.produce(TOPIC, f"record {number} of all", partition=0)
        assert one_by_one.flush(PATIENCE_S) == 0
        filling = Producer(options)
        for _ in range(40):
            filling.produce("filler", os.urandom(100_000))
        assert filling.flush(PATIENCE_S) == 0
        files = broker.data / "files"
        until(lambda: not (files / "0000000001.journal").exists(), "a merge")
        broker.stop()
        damage(files, f"record {BAD} of".encode())
        broker.start()
        yield broker


def damage(files: Path, words: bytes) -> None:
    """One letter, wherever they are."""
    found = [(path, at.start()) for path in files.iterdir() for at in re.finditer(words, path.read_bytes())]
    assert found
    for path, position in found:
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(b"R")


@pytest.mark.parametrize("max_bytes", [1, 5000, 1 << 20])
def test_a_fetch_ends_before_the_damage_and_one_that_begins_there_is_told(broker, max_bytes):
    with Wire(broker.kafka) as wire:
        offset, records = 0, b""
        while True:
            part = fetch(wire, offset, max_bytes)
            if part.error_code:
                break
            records += part.records
            offset = records.count(b" of all")
        assert (offset, part.error_code) == (BAD, CORRUPT_MESSAGE)
        assert not part.records
        rest = b""
        while offset + 1 + rest.count(b" of all") < COUNT:
            part = fetch(wire, BAD + 1 + rest.count(b" of all"), max_bytes)
            assert part.error_code == 0
            rest += part.records
    log = broker._runner.log.read_text()
    line = next(line for line in log.splitlines() if "a read failed" in line)
    assert "topic=damaged partition=0" in line
    assert re.search(r"/files/\d+\.run is corrupt at byte \d+: the batch at offset 200 does not match", line)


def fetch(wire: Wire, offset: int, max_bytes: int):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    message = FetchRequest(
        max_wait_ms=0, max_bytes=max_bytes, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
    )
    return wire.ask(message, 11).responses[0].partitions[0]


def test_librdkafka_gets_what_is_before_it_and_an_error(broker):
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": new_name("reader")})
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    got, error = 0, None
    while error is None:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        got += error is None
    consumer.close()
    assert (got, error.code()) == (BAD, CORRUPT_MESSAGE)


def test_a_share_group_gets_what_is_before_it_and_is_told_then(broker):
    group = new_name("sharers")
    with Wire(broker.kafka) as wire:
        configure(wire, group, share_auto_offset_reset="earliest")
    with Sharer(broker.kafka, group, TOPIC) as sharer:
        sharer.join()
        (part,) = sharer.ask_fetch().responses[0].partitions
        assert (part.error_code, part.acquired_records[0].first_offset) == (0, 0)
        assert part.acquired_records[-1].last_offset == BAD - 1
        assert part.records.count(b" of all") == BAD
        (part,) = sharer.ask_fetch(acks=[(0, BAD - 1, [ACCEPT])]).responses[0].partitions
        assert (part.error_code, part.acknowledge_error_code) == (CORRUPT_MESSAGE, 0)


def test_kafka_python_gets_what_is_before_it_and_an_error(broker):
    place = kafka.TopicPartition(TOPIC, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.kafka, auto_offset_reset="earliest")
    consumer.assign([place])
    got = 0
    while got < BAD:
        got += len(consumer.poll(PATIENCE_S * 1000).get(place, ()))
    assert got == BAD
    with pytest.raises(kafka.errors.KafkaError):
        consumer.poll(PATIENCE_S * 1000)
    consumer.close()


def test_aiokafka_goes_on_behind_it(broker):
    async def read() -> int:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.kafka)
        await consumer.start()
        try:
            place = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            got = 0
            async with asyncio.timeout(PATIENCE_S):
                while got < BAD:
                    got += len((await consumer.getmany(timeout_ms=1000)).get(place, ()))
                consumer.seek(place, BAD + 1)
                while got < COUNT - 1:
                    got += len((await consumer.getmany(timeout_ms=1000)).get(place, ()))
            return got
        finally:
            await consumer.stop()

    assert asyncio.run(read()) == COUNT - 1
