"""A Kafka connection without a socket: bytes go in as from the transport, and what is written is kept."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.fronts.kafka.connection import Connection
from mainstem.fronts.kafka.server import KafkaServer, ServerLimits
from mainstem.fronts.kafka.session import Listener
from mainstem.kernel.log.log import LogOptions
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


def produce_request(acks: int, *batches: bytes, number: int = 1) -> bytes:
    """One batch for each partition of topic t, from 0 on; a small one if none is given."""
    batches = batches or (bytes(encode_batch([Record(0, 1, b"k", b"v" * 1000, ())])),)
    parts = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    data = TopicProduceData(name="t", partition_data=parts)
    message = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])
    return encode_request(SPECS[ApiKey.PRODUCE], PRODUCE_VERSION, number, "me", message)


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
