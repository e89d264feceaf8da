"""The paths of Produce and Fetch that a busy or sick disk takes."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.fronts.kafka.connection import MAX_IN_FLIGHT, Connection
from mainstem.fronts.kafka.server import KafkaServer, ServerLimits
from mainstem.fronts.kafka.session import Listener
from mainstem.kernel.log.disk import OsFile
from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.model.records import Record, encode_batch
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.codec import decoder
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from mainstem.wire.kafka.frames import encode_request
from mainstem.wire.kafka.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LOG = LogOptions(file_bytes=8 << 20, reserve_bytes=1 << 20)
PRODUCE_VERSION, FETCH_VERSION = 9, 11


class Wire(asyncio.Transport):
    """The peer's end: what was written, and whether it is still listened to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.reading = True
        self.closed = False
        self.came = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += data
        self.came.set()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


def new_server(broker: Broker) -> KafkaServer:
    return KafkaServer(Listener("kafka", broker, OpenAccess()), ServerLimits())


def connect(server: KafkaServer) -> tuple[Connection, Wire]:
    connection, wire = server._new_protocol(), Wire()
    assert isinstance(connection, Connection)
    connection.connection_made(wire)
    return connection, wire


def with_connection(folder: Path, work: Callable[[Broker, Connection, Wire], Awaitable[None]]) -> None:
    async def run() -> None:
        broker = await Broker.open(BrokerOptions(str(folder), log=LOG, merge=False))
        connection, wire = connect(new_server(broker))
        try:
            await work(broker, connection, wire)
        finally:
            connection.connection_lost(None)
            await broker.close()

    asyncio.run(run())


def receive(connection: Connection, data: bytes) -> None:
    while data:
        room = connection.get_buffer(-1)
        size = min(len(room), len(data))
        room[:size] = data[:size]
        connection.buffer_updated(size)
        data = data[size:]


def produce_request(acks: int) -> bytes:
    batch = bytes(encode_batch([Record(0, 1, b"k", b"v" * 1000, ())]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    message = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])
    return encode_request(SPECS[ApiKey.PRODUCE], PRODUCE_VERSION, 1, "me", message)


async def fetch(connection: Connection, wire: Wire, committed: bool) -> FetchResponse:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    message = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )
    wire.written.clear()
    wire.came.clear()
    receive(connection, encode_request(SPECS[ApiKey.FETCH], FETCH_VERSION, 2, "me", message))
    async with asyncio.timeout(10):
        await wire.came.wait()
    response, _ = decoder(FetchResponse, FETCH_VERSION)(memoryview(bytes(wire.written)), 8)
    return response


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
