"""One answer holds a limited share of a backlog: nobody waits for more, no partition is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PyPartition
from kafka_kit import PATIENCE_S, batch, create_topic, new_name, take
from raw_kafka import Raw

from mainstem.kernel.log.disk import OsFile
from mainstem.testing import Broker
from mainstem.wire.kafka.apis import ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchTopic
from mainstem.wire.kafka.produce import PartitionProduceData, TopicProduceData

NEVER_MS = 600_000
MOST = 256 << 10
VALUE = "v" * 20_000
PARTITIONS, EACH = 8, 60  # together many times what one answer holds


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker({"server.max_response_bytes": MOST}) as broker:
        yield broker.kafka


def fill(address: str, topic: str, partitions: int, count: int, value: str = VALUE) -> int:
    """So many batches of one record in each partition; the size of one."""
    create_topic(address, topic, partitions)
    one = batch([value])
    with Raw(address) as raw:
        for _ in range(count):
            data = TopicProduceData(
                topic, partition_data=[PartitionProduceData(index, one) for index in range(partitions)]
            )
            answer = raw.ask(ApiKey.PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=[data])
            assert {done.error_code for done in answer.responses[0].partition_responses} == {0}
    return len(one)


def fetch(raw: Raw, topic: str, min_bytes: int, partition_max_bytes: int) -> int:
    """Bytes of an answer whose time is never up: the client gives up long before."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=partition_max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    answer = raw.ask(
        ApiKey.FETCH, 11, max_wait_ms=NEVER_MS, min_bytes=min_bytes, max_bytes=64 << 20, topics=topics
    )
    (found,) = answer.responses[0].partitions
    assert found.error_code == 0
    return len(found.records or b"")


def test_who_asks_for_more_than_an_answer_holds_gets_what_it_holds_at_once(address):
    size = fill(address, "much", 1, 60)
    with Raw(address) as raw:
        assert fetch(raw, "much", 8 << 20, 64 << 20) == MOST // size * size


def test_who_asks_for_all_that_fits_need_not_hit_the_end_of_a_batch(address):
    size = fill(address, "whole", 1, 10)
    asked = 5 * size + size // 2
    with Raw(address) as raw:
        assert fetch(raw, "whole", asked, asked) == 5 * size


def test_an_answer_holds_so_many_batches_however_small_they_are(address, monkeypatch):
    monkeypatch.setattr("mainstem.kernel.log.log.MAX_BATCHES_SENT", 20)
    size = fill(address, "small", 1, 50, "v")
    with Raw(address) as raw:
        assert fetch(raw, "small", 40 * size, 64 << 20) == 20 * size


def test_batches_larger_than_their_partitions_room_count_as_what_they_are(address):
    size = fill(address, "large", 2, 3)
    partitions = [FetchPartition(partition=index, partition_max_bytes=100) for index in range(2)]
    asked = {"max_wait_ms": NEVER_MS, "min_bytes": size + 1, "max_bytes": 64 << 20}
    with Raw(address) as raw:
        answer = raw.ask(ApiKey.FETCH, 11, topics=[FetchTopic(topic="large", partitions=partitions)], **asked)
    assert [len(found.records) for found in answer.responses[0].partitions] == [size, size]


@pytest.mark.parametrize("cold", [False, True])
def test_who_always_asks_in_the_same_order_hears_from_all_partitions(address, monkeypatch, cold):
    topic = new_name("order")
    size = fill(address, topic, PARTITIONS, EACH)
    if cold:
        monkeypatch.setattr(OsFile, "pread_cached", lambda *_: None)
    offsets = [0] * PARTITIONS
    with Raw(address) as raw:
        for _ in range(PARTITIONS):
            partitions = [
                FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                for index, offset in enumerate(offsets)
            ]
            topics = [FetchTopic(topic=topic, partitions=partitions)]
            answer = raw.ask(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=1, max_bytes=64 << 20, topics=topics)
            for found in answer.responses[0].partitions:
                assert found.error_code == 0
                offsets[found.partition_index] += len(found.records or b"") // size
    assert min(offsets) > 0
    assert max(offsets) - min(offsets) <= MOST // size


def confluent(address: str, topic: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": new_name("reader")})
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
    try:
        return [message.partition() for message in take([consumer], count)]
    finally:
        consumer.close()


def kafka_python(address: str, topic: str, count: int) -> list[int]:
    consumer = KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=PATIENCE_S * 1000)
    consumer.assign([PyPartition(topic, index) for index in range(PARTITIONS)])
    consumer.seek_to_beginning()
    try:
        return [message.partition for message, _ in zip(consumer, range(count), strict=False)]
    finally:
        consumer.close()


def aio(address: str, topic: str, count: int) -> list[int]:
    async def run() -> list[int]:
        consumer = AIOKafkaConsumer(bootstrap_servers=address)
        await consumer.start()
        try:
            consumer.assign([AioPartition(topic, index) for index in range(PARTITIONS)])
            await consumer.seek_to_beginning()
            async with asyncio.timeout(PATIENCE_S):
                return [(await consumer.getone()).partition for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(run())


@pytest.mark.parametrize("consume", [confluent, kafka_python, aio])
def test_a_consumer_of_many_partitions_hears_from_each(
    address: str, consume: Callable[[str, str, int], list[int]]
) -> None:
    topic = new_name("even")
    fill(address, topic, PARTITIONS, EACH)
    seen = consume(address, topic, PARTITIONS * EACH)
    assert sorted(seen) == sorted(list(range(PARTITIONS)) * EACH)
    assert set(seen[: len(seen) // 2]) == set(range(PARTITIONS))
