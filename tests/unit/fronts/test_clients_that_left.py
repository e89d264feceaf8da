"""What a client sent with acks=0 before it left is taken, within bounds of memory and of work."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from connection_kit import Wire, connect, new_server, produce_request, receive, with_connection
from test_heavy_batches import HEAVY, SMALL, gate

from mainstem.broker.broker import Broker
from mainstem.fronts.kafka.connection import MAX_IN_FLIGHT, MAX_LEAVING, Connection
from mainstem.fronts.kafka.server import KafkaServer
from mainstem.model.batch import ZSTD
from mainstem.model.records import Record, encode_batch
from mainstem.wire.kafka.api_versions import ApiVersionsRequest
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.frames import encode_request

__all__ = ["gate"]  # a fixture

OTHER = encode_request(SPECS[ApiKey.API_VERSIONS], 0, 7, "me", ApiVersionsRequest())
SILENT = produce_request(0, SMALL)


async def worked_off(server: KafkaServer) -> None:
    async with asyncio.timeout(30):
        while server.leaving:
            await asyncio.sleep(0)


@pytest.mark.parametrize("told", [False, True], ids=["at once", "when a round is on disk"])
@pytest.mark.parametrize("behind", [b"", OTHER], ids=["more than may be under way", "behind another request"])
def test_all_of_many_is_taken_whenever_the_client_leaves(tmp_path, told, behind):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        topic = await broker.create_topic("t")
        server = new_server(broker)
        gone, _wire = connect(server)
        run_soon, done = server._run_soon, []

        def leave_first() -> None:
            if any(call == gone._send_ready for call in server._soon) and not done:
                done.append(True)
                gone.connection_lost(None)  # before what is ready is sent
            run_soon()

        if told:
            server._run_soon = leave_first
        receive(gone, SILENT + behind + SILENT * 300)
        if not told:
            gone.connection_lost(None)
        async with asyncio.timeout(30):
            while topic.partitions[0].next_offset < 301:
                await asyncio.sleep(0)
        await worked_off(server)
        assert server.budget._used == 0

    with_connection(tmp_path, work)


def test_all_that_came_by_a_socket_is_taken_beside_a_busy_loop(tmp_path):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        topic = await broker.create_topic("t")
        server = new_server(broker)
        host, port = await server.start("127.0.0.1", 0)

        def send_and_close() -> None:
            with socket.create_connection((host, port)) as client:
                client.sendall(SILENT * 500)

        for number in range(1, 6):
            sending = asyncio.get_running_loop().run_in_executor(None, send_and_close)
            async with asyncio.timeout(30):
                while topic.partitions[0].next_offset < 500 * number:
                    time.sleep(0.006)  # a long turn, in which bytes and rounds pile up
                    await asyncio.sleep(0)
            await sending
        await server.stop()

    with_connection(tmp_path, work)


def test_not_many_clients_that_left_have_batches_that_must_be_looked_into(tmp_path, gate):
    heavy = Record(0, 1, b"k", bytes(3 << 20))
    request = produce_request(0, bytes(encode_batch([heavy], codec=ZSTD)))

    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        topic = await broker.create_topic("t")
        server = new_server(broker)
        for _number in range(3 * MAX_LEAVING):
            gone, _wire = connect(server)
            receive(gone, request)
            gone.connection_lost(None)
        assert len(server.leaving) == MAX_LEAVING
        assert server.budget._used == sum(len(request) - 4 for _ in server.leaving)
        gate.open()
        await worked_off(server)
        assert topic.partitions[0].next_offset == MAX_LEAVING
        assert server.budget._used == 0

    with_connection(tmp_path, work)


def test_a_stop_waits_for_what_clients_sent_that_have_left(tmp_path, gate):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        topic = await broker.create_topic("t")
        server = new_server(broker)
        gone, _wire = connect(server)
        receive(gone, produce_request(0, HEAVY))
        await asyncio.to_thread(gate.reached.wait, 30)
        gone.connection_lost(None)
        asyncio.get_running_loop().call_later(0.1, gate.open)
        await server.stop()
        assert topic.partitions[0].next_offset == 2

    with_connection(tmp_path, work)


def test_a_bug_ends_what_is_left_of_a_connection(tmp_path, monkeypatch):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        await broker.create_topic("t")
        server = new_server(broker)
        gone, _wire = connect(server)
        receive(gone, SILENT * (MAX_IN_FLIGHT + 10))

        def fail(*_: object) -> None:
            raise ValueError("a bug")

        monkeypatch.setattr(server._dispatcher, "start", fail)
        gone.connection_lost(None)
        await worked_off(server)
        assert server.budget._used == 0

    with_connection(tmp_path, work)
