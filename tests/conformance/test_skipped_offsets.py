"""After a kill, topics with `durability = os` go on behind their block of offsets; readers pass the hole."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, Producer, ShareConsumer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPartition
from kafka_kit import PATIENCE_S, Wire, publish, until
from share_kit import Sharer, configure

from mainstem.client import Client, ClientSettings, parse_bootstrap
from mainstem.client import TopicPartition as Place
from mainstem.client.admin import create_topic
from mainstem.client.client import LATEST, MAX_TIMESTAMP
from mainstem.model.batch import iter_batches
from mainstem.spark.planning import bytes_per_offset
from mainstem.spark.ranges import Range
from mainstem.spark.reading import ReadOptions, read
from mainstem.testing.broker import Broker

FAST = Place("fast", 0)
SURVIVORS = ["a", "b", "c"]
MERGING = {
    "journal.file_bytes": "1 MiB",
    "journal.reserve_bytes": "64 KiB",
    "merge.delay_ms": 0,
    "snapshot.interval_ms": 1000,
}


class Reader(Protocol):
    def read(self, end: int) -> list[str]:
        """Everything until this offset is reached."""

    def close(self) -> None: ...


class Confluent:
    def __init__(self, address: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "confluent",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign([TopicPartition("fast", 0, 0)])
        self.close = self._consumer.close

    def read(self, end: int) -> list[str]:
        found: list[str] = []
        while True:
            message = self._consumer.poll(PATIENCE_S)
            assert message is not None, "no end in sight"
            if message.error() is None:
                found.append(message.value().decode())
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                if message.offset() == end:
                    return found


class Python:
    def __init__(self, address: str) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
        self._place = PythonPartition("fast", 0)
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, 0)
        self.close = self._consumer.close

    def read(self, end: int) -> list[str]:
        found: list[str] = []

        def at_the_end() -> bool:
            for records in self._consumer.poll(timeout_ms=100).values():
                found.extend(record.value.decode() for record in records)
            return bool(self._consumer.position(self._place) == end)

        until(at_the_end, f"offset {end}")
        return found


class Aio:
    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner()
        self._place = AioPartition("fast", 0)
        self._consumer = self._runner.run(self._open(address))

    async def _open(self, address: str) -> Any:
        consumer = AIOKafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
        await consumer.start()
        consumer.assign([self._place])
        consumer.seek(self._place, 0)
        return consumer

    def read(self, end: int) -> list[str]:
        return self._runner.run(asyncio.wait_for(self._read(end), PATIENCE_S))

    async def _read(self, end: int) -> list[str]:
        found: list[str] = []
        while await self._consumer.position(self._place) < end:
            for records in (await self._consumer.getmany(timeout_ms=100)).values():
                found += [record.value.decode() for record in records]
        return found

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def fill(broker: Broker) -> None:
    with client_of(broker) as client:
        create_topic(client, "fast", 1, {"durability": "os"})
    publish(broker.kafka, "fast", SURVIVORS)


def client_of(broker: Broker) -> Client:
    return Client(ClientSettings(parse_bootstrap(broker.kafka)))


def crash(broker: Broker) -> None:
    broker.kill()
    broker.restart()


def end_of(client: Client) -> int:
    return client.offsets({FAST: LATEST})[FAST].offset


def batches_of(client: Client) -> list[tuple[int, int, int]]:
    """First and last offset and number of records of all that is there."""
    found: list[tuple[int, int, int]] = []
    at, end = 0, end_of(client)
    while at < end:
        (fetched,) = client.fetch({FAST: at})
        headers = [header for _, header in iter_batches(fetched.records)]
        assert headers, f"nothing at {at}, below the end {end}"
        found += [(one.base_offset, one.last_offset, one.record_count) for one in headers]
        at = fetched.next_offset
    return found


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(process=True) as broker:
        fill(broker)
        crash(broker)
        yield broker


@pytest.mark.parametrize("kind", [Confluent, Python, Aio])
def test_a_client_reads_to_the_end_and_then_what_is_written_later(broker: Broker, kind: type[Any]):
    with client_of(broker) as client:
        reader: Reader = kind(broker.kafka)
        try:
            end = end_of(client)
            assert end > 1_000_000
            assert reader.read(end) == SURVIVORS
            publish(broker.kafka, "fast", ["later"])
            assert reader.read(end + 1) == ["later"]
        finally:
            reader.close()
        again: Reader = kind(broker.kafka)
        try:
            assert again.read(end + 1) == [*SURVIVORS, "later"]
        finally:
            again.close()


def test_consume_ends(broker: Broker):
    program = [sys.executable, "-c", "from mainstem.cli.main import main; main()"]
    asked = [*program, "consume", "fast", "-b", broker.kafka]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.split() == SURVIVORS


def test_the_hole_is_one_batch_and_a_second_crash_adds_none(broker: Broker):
    with client_of(broker) as client:
        end = end_of(client)
        before = batches_of(client)
        assert before[-1] == (3, end - 1, 0)
        assert sum(count for _, _, count in before) == 3
    for stop in (crash, crash, Broker.restart):
        stop(broker)
        with client_of(broker) as client:
            assert end_of(client) == end
            assert batches_of(client) == before
    publish(broker.kafka, "fast", ["later"])
    crash(broker)
    with client_of(broker) as client:
        assert batches_of(client)[:-1] == [*before, (end, end, 1)]
        assert batches_of(client)[-1] == (end + 1, end_of(client) - 1, 0)


def test_a_fetch_in_the_middle_of_the_hole_goes_on_behind_it(broker: Broker):
    with client_of(broker) as client:
        end = end_of(client)
        (fetched,) = client.fetch({FAST: 500_000})
        assert (fetched.check().next_offset, list(fetched.decoded())) == (end, [])
        publish(broker.kafka, "fast", ["later"])
        (fetched,) = client.fetch({FAST: 500_000})
        assert [(one.offset, one.value) for one in fetched.decoded()] == [(end, b"later")]


def test_times_are_those_of_records(broker: Broker):
    with client_of(broker) as client:
        latest = client.offsets({FAST: MAX_TIMESTAMP})[FAST]
        assert latest.offset in range(3)
        assert client.offsets({FAST: 1})[FAST].offset == 0
        assert client.offsets({FAST: latest.timestamp_ms + 1})[FAST].offset == -1
        end = end_of(client)
        publish(broker.kafka, "fast", ["later"])
        assert client.offsets({FAST: latest.timestamp_ms + 1})[FAST].offset == end
        assert client.offsets({FAST: MAX_TIMESTAMP})[FAST].offset == end


def test_a_share_group_passes_over_it_at_once(broker: Broker):
    with Wire(broker.kafka) as wire:
        configure(wire, "g", share_auto_offset_reset="earliest")
    publish(broker.kafka, "fast", ["later"])
    with client_of(broker) as client, Sharer(broker.kafka, "g", "fast") as sharer:
        later = end_of(client) - 1
        sharer.join()
        seen: list[tuple[int, str, int]] = []
        answers = 0
        while len(seen) < 4:
            seen += sharer.fetch(max_wait_ms=1000)
            answers += 1
        assert seen == [(0, "a", 1), (1, "b", 1), (2, "c", 1), (later, "later", 1)]
        assert answers <= 2


def test_a_share_consumer_reads_what_lies_behind_it(broker: Broker):
    with Wire(broker.kafka) as wire:
        configure(wire, "g", share_auto_offset_reset="earliest")
    publish(broker.kafka, "fast", ["later"])
    worker = ShareConsumer({"bootstrap.servers": broker.kafka, "group.id": "g"})
    worker.subscribe(["fast"])
    seen: list[str] = []

    def all_seen() -> bool:
        seen.extend(message.value().decode() for message in worker.poll(0.1))
        return len(seen) >= 4

    until(all_seen, "four records")
    worker.close()
    assert seen == [*SURVIVORS, "later"]


def test_spark_reads_what_lies_before_and_behind_it(broker: Broker):
    publish(broker.kafka, "fast", ["later"])
    settings = ClientSettings(parse_bootstrap(broker.kafka))
    options = ReadOptions(settings, ("value", "offset"), True, True, 10)
    with client_of(broker) as client:
        end = end_of(client)
        for first, stop, wanted in [
            (0, end, [*SURVIVORS, "later"]),
            (2, 500_000, ["c"]),
            (500_000, 600_000, []),
            (500_000, end, ["later"]),
        ]:
            found = read(Range(FAST, first, stop), options)
            values = [value.decode() for batch in found for value in batch.column("value").to_pylist()]
            assert values == wanted
        # Offsets that were skipped say nothing of how large records are.
        assert bytes_per_offset(client, {FAST: 500_000})[FAST] > 60


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_it_is_still_there_when_its_file_was_merged(policy: str):
    with Broker(MERGING, process=True) as broker:
        with client_of(broker) as client:
            create_topic(client, "fast", 1, {"durability": "os", "cleanup.policy": policy})
            create_topic(client, "other", 1, {})
        publish_keyed(broker)
        crash(broker)
        for _ in range(4):
            publish(broker.kafka, "other", ["x" * 100_000] * 10)
        first = broker.data / "files/0000000001.journal"
        until(lambda: not first.exists(), "a merge of the first file")
        with client_of(broker) as client:
            end = end_of(client)
            assert batches_of(client)[-1] == (3, end - 1, 0)
        reader = Confluent(broker.kafka)
        assert reader.read(end) == SURVIVORS
        reader.close()


def publish_keyed(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 0})
    for value in SURVIVORS:
        producer.produce("fast", value, value)
        assert producer.flush(PATIENCE_S) == 0
