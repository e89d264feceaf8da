"""What counts as sent: upkeep rests while much is, so it must hear of answers and not of looks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from connection_kit import (
    FETCH_VERSION,
    Wire,
    connect,
    fetch,
    new_server,
    produce_request,
    receive,
    with_connection,
)

from mainstem.broker.broker import Broker
from mainstem.broker.reading import PartitionRead, Reading
from mainstem.fronts.kafka.connection import Connection
from mainstem.kernel.log.disk import OsFile
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.codec import decoder
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from mainstem.wire.kafka.frames import encode_request

ROUNDS = 20


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes found by each look of a fetch; all that is written counts as in memory."""
    found: list[int] = []
    read = Reading.read

    def watched(*arguments: Any) -> PartitionRead:
        result = read(*arguments)
        found.append(result.size)
        return result

    monkeypatch.setattr(Reading, "read", watched)
    monkeypatch.setattr(OsFile, "pread_cached", OsFile.pread)
    return found


def wait_for(connection: Connection, min_bytes: int) -> None:
    """A fetch that is answered once there is so much; its time is never up."""
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    message = FetchRequest(
        max_wait_ms=600_000,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )
    receive(connection, encode_request(SPECS[ApiKey.FETCH], FETCH_VERSION, 2, "me", message))


async def produce(connection: Connection, wire: Wire) -> None:
    wire.came.clear()
    receive(connection, produce_request(acks=1))
    async with asyncio.timeout(10):
        await wire.came.wait()


def test_a_fetch_that_is_woken_many_times_counts_only_what_it_sent(tmp_path, looks):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        await broker.create_topic("t")
        await produce(connection, wire)
        one = broker.store.log.size_bytes(broker.topics.get("t").partitions[0].id)
        consumer, consumed = connect(new_server(broker))
        wait_for(consumer, ROUNDS * one)
        for _ in range(ROUNDS - 2):
            await produce(connection, wire)
        assert sum(looks) > ROUNDS * one
        assert broker.store.log.bytes_sent == 0
        await produce(connection, wire)
        async with asyncio.timeout(10):
            await consumed.came.wait()
        response, _ = decoder(FetchResponse, FETCH_VERSION)(memoryview(bytes(consumed.written)), 8)
        (answer,) = response.responses[0].partitions
        assert broker.store.log.bytes_sent == len(answer.records or b"") == ROUNDS * one
        consumer.connection_lost(None)

    with_connection(tmp_path, work)


def test_a_fetch_that_nobody_waits_for_any_more_counts_nothing(tmp_path, looks):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        await broker.create_topic("t")
        consumer, _ = connect(new_server(broker))
        wait_for(consumer, 1 << 20)
        await produce(connection, wire)
        consumer.connection_lost(None)
        await produce(connection, wire)
        assert sum(looks) > 0
        assert broker.store.log.bytes_sent == 0

    with_connection(tmp_path, work)


@pytest.mark.parametrize("cold", [False, True])
def test_what_comes_from_the_disk_counts_as_what_comes_from_memory_does(tmp_path, monkeypatch, cold):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        await broker.create_topic("t")
        await produce(connection, wire)
        monkeypatch.setattr(OsFile, "pread_cached", (lambda *_: None) if cold else OsFile.pread)
        sent = 0
        for committed in (False, True):
            response = await fetch(connection, wire, committed)
            (answer,) = response.responses[0].partitions
            sent += len(answer.records or b"")
            assert sent > 0
            assert broker.store.log.bytes_sent == sent

    with_connection(tmp_path, work)
