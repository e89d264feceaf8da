"""A listener with a broker behind it in this process, and a client that speaks frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pamqp import body, commands, frame, header

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.fronts.amqp.server import AmqpServer, ServerLimits
from mainstem.fronts.amqp.session import Listener
from mainstem.fronts.kafka.budget import Budget
from mainstem.kernel.log.log import LogOptions
from mainstem.net.guests import Guests

PATIENCE_S = 10


class House:
    def __init__(self, broker: Broker, server: AmqpServer, port: int) -> None:
        self.broker, self.server, self.port = broker, server, port

    async def client(self, heartbeat_s: int = 0) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 16)
        client = Client(reader, writer)
        await client.open(heartbeat_s)
        return client


@asynccontextmanager
async def house(
    folder: Path,
    limits: ServerLimits | None = None,
    budget_bytes: int = 64 << 20,
    guests: Guests | None = None,
) -> AsyncIterator[House]:
    small = LogOptions(file_bytes=4 << 20, reserve_bytes=256 << 10)
    broker = await Broker.open(BrokerOptions(folder=str(folder), log=small))
    server = AmqpServer(
        Listener("amqp", broker, OpenAccess()),
        limits or ServerLimits(drain_ms=1000),
        Budget(budget_bytes),
        guests,
    )
    _, port = await server.start("127.0.0.1", 0)
    try:
        yield House(broker, server, port)
    finally:
        await server.stop()
        await broker.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def open(self, heartbeat_s: int) -> None:
        self._writer.write(b"AMQP\0\0\x09\x01")
        await self.receive()
        properties = {"capabilities": {"connection.blocked": True, "consumer_cancel_notify": True}}
        self.send(commands.Connection.StartOk(properties, "PLAIN", "\0guest\0guest", "en_US"), 0)
        tune = await self.receive()
        self.send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, heartbeat_s), 0)
        await self.call(commands.Connection.Open("/"), 0)
        await self.call(commands.Channel.Open())

    def send(self, what: Any, channel: int = 1) -> None:
        self._writer.write(frame.marshal(what, channel))

    async def call(self, method: Any, channel: int = 1) -> Any:
        self.send(method, channel)
        return await self.receive()

    def publish(self, key: str, data: bytes, announced: int | None = None) -> None:
        self.send(commands.Basic.Publish(routing_key=key))
        self.send(header.ContentHeader(body_size=len(data) if announced is None else announced))
        if data:
            self.send(body.ContentBody(data))

    async def drain(self) -> None:
        await asyncio.wait_for(self._writer.drain(), PATIENCE_S)

    async def receive(self) -> Any:
        """The next frame; raises IncompleteReadError when the broker hangs up."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readexactly(7)
            rest = await self._reader.readexactly(int.from_bytes(head[3:], "big") + 1)
        return frame.unmarshal(head + rest)[2]

    async def receive_bodies(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        while len(found) < count:
            what = await self.receive()
            if isinstance(what, body.ContentBody):
                found.append(bytes(what.value))
        return found

    def close(self) -> None:
        self._writer.close()


async def until(condition: Any) -> None:
    """Wait for something to become true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)
