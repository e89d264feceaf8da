"""The paths of Produce and Fetch that a busy or sick disk takes."""

import asyncio
import threading

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
from mainstem.fronts.kafka.connection import MAX_IN_FLIGHT, Connection
from mainstem.kernel.log.disk import OsFile
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.wire.kafka.frames import encode_request


def test_who_wants_no_answer_cannot_fill_the_memory_with_what_the_disk_has_not_taken(tmp_path):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t")
        writer, held = broker.store.log._writer, []
        writer.after_turn = held.append  # a disk that takes its time
        while not writer._idle:
            await asyncio.sleep(0)
        before = broker.store.log.submitted
        receive(connection, produce_request(acks=0) * (2 * MAX_IN_FLIGHT))
        assert broker.store.log.submitted - before == MAX_IN_FLIGHT
        assert not wire.reading
        writer.after_turn = asyncio.get_running_loop().call_soon
        held[0]()
        async with asyncio.timeout(10):
            while topic.partitions[0].high_watermark < 2 * MAX_IN_FLIGHT or not wire.reading:
                await asyncio.sleep(0)
        assert not wire.written

    with_connection(tmp_path, work)


def test_a_fetch_that_needs_the_disk_looks_at_partitions_on_the_loop_only(tmp_path, monkeypatch):
    """Their transactions change on the loop: another thread would see them half changed."""
    threads = set()

    class Watched(PartitionProducers):
        def last_stable_offset(self, high_watermark: int) -> int:
            threads.add(threading.current_thread())
            return super().last_stable_offset(high_watermark)

    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t")
        receive(connection, produce_request(acks=1))
        async with asyncio.timeout(10):
            await wire.came.wait()
        monkeypatch.setattr(OsFile, "pread_cached", lambda *_: None)
        topic.partitions[0].producers = Watched(1000)
        response = await fetch(connection, wire, committed=True)
        (one,) = response.responses[0].partitions
        assert (one.error_code, one.high_watermark, one.last_stable_offset) == (0, 1, 1)
        assert len(one.records or b"") > 1000
        assert threads == {threading.main_thread()}
        assert topic.partitions[0].high_watermark == 1

    with_connection(tmp_path, work)


@pytest.mark.parametrize("cold", [False, True])
def test_a_file_that_cannot_be_read_is_an_error_of_its_partition(tmp_path, monkeypatch, cold):
    def fail(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        await broker.create_topic("t")
        receive(connection, produce_request(acks=1))
        async with asyncio.timeout(10):
            await wire.came.wait()
        monkeypatch.setattr(OsFile, "pread_cached", (lambda *_: None) if cold else fail)
        monkeypatch.setattr(OsFile, "pread", fail)
        response = await fetch(connection, wire, committed=False)
        assert response.responses[0].partitions[0].error_code == 56
        assert not wire.closed

    with_connection(tmp_path, work)


def test_a_stopping_server_answers_what_it_took_and_takes_no_more(tmp_path):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        await broker.create_topic("t")
        server = new_server(broker)
        connection, wire = connect(server)
        before = broker.store.log.submitted
        receive(connection, produce_request(acks=1))
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        receive(connection, produce_request(acks=1))
        async with asyncio.timeout(10):
            await stopping
        assert broker.store.log.submitted - before == 1
        assert wire.written
        assert wire.closed
        late, late_wire = connect(server)  # its handshake was under way
        receive(late, produce_request(acks=1))
        assert late_wire.closed
        assert broker.store.log.submitted - before == 1

    with_connection(tmp_path, work)


def test_nothing_is_written_while_the_transport_says_that_it_may_be(tmp_path):
    """It is in the middle of its own writing: a write that fails there would close the connection twice."""

    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        await broker.create_topic("t")
        connection.pause_writing()
        message = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=[FetchPartition()])])
        receive(connection, encode_request(SPECS[ApiKey.FETCH], FETCH_VERSION, 2, "me", message))
        assert not wire.written
        connection.resume_writing()
        assert not wire.written
        async with asyncio.timeout(10):
            await wire.came.wait()
        assert wire.written

    with_connection(tmp_path, work)
