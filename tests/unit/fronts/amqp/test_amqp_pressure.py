"""A client that does not read, a broker that is short of room, silence, and the end of a listener."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from amqp_house import house, until
from pamqp import body, commands, heartbeat

from mainstem.fronts.amqp.server import ServerLimits
from mainstem.net.guests import Guests


def test_a_publisher_waits_while_the_broker_is_short_of_room(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path) as here:
            publisher, consumer = await here.client(), await here.client()
            await publisher.call(commands.Queue.Declare(queue="q"))
            await publisher.call(commands.Confirm.Select())
            await consumer.call(commands.Basic.Consume(queue="q", no_ack=True))
            here.broker.queues._set_blocked("the disk is full")
            publisher.publish("q", b"waits")
            told = await publisher.receive()
            assert isinstance(told, commands.Connection.Blocked)
            assert told.reason == "the disk is full"
            assert (await consumer.call(commands.Queue.Declare(queue="q", passive=True))).message_count == 0
            here.broker.queues._set_blocked(None)
            assert isinstance(await publisher.receive(), commands.Connection.Unblocked)
            assert isinstance(await publisher.receive(), commands.Basic.Ack)
            assert await consumer.receive_bodies(1) == [b"waits"]

    asyncio.run(run())


def test_a_client_that_does_not_read_costs_little_and_gets_the_rest_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path) as here:
            publisher, slow = await here.client(), await here.client()
            await publisher.call(commands.Queue.Declare(queue="q"))
            bodies = [b"%06d" % number + bytes(10_000) for number in range(2000)]
            for data in bodies:
                publisher.publish("q", data)
                await publisher.drain()
            ready = await publisher.call(commands.Queue.Declare(queue="q", passive=True))
            assert ready.message_count == 2000
            slow.send(commands.Basic.Consume(queue="q", no_ack=True))
            await until(lambda: here.server.listener.unsent.held > 0)
            # Others are served meanwhile, and the slow one may publish.
            slow.publish("q", b"last")
            await publisher.call(commands.Queue.Declare(queue="other"))
            assert here.server.listener.unsent.held < 4 << 20
            assert await slow.receive_bodies(2001) == [*bodies, b"last"]
            await until(lambda: here.server.listener.unsent.held == 0)

    asyncio.run(run())


def test_methods_wait_for_those_before_them_and_are_answered_in_order(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path) as here:
            client = await here.client()
            for number in range(200):
                client.send(commands.Queue.Declare(queue=f"q{number}", durable=True))
                client.publish(f"q{number}", b"x" * number)
                client.send(commands.Queue.Declare(queue=f"q{number}", passive=True))
            for number in range(200):
                assert (await client.receive()).queue == f"q{number}"
                again = await client.receive()
                assert (again.queue, again.message_count) == (f"q{number}", 1)

    asyncio.run(run())


def test_large_messages_are_received_as_there_is_room_for_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path, budget_bytes=1) as here:  # one at a time
            watcher = await here.client()
            await watcher.call(commands.Queue.Declare(queue="q"))
            publishers = [await here.client() for _ in range(4)]
            size, part = 3 << 20, 64 << 10

            async def publish(number: int) -> None:
                publishers[number].publish("q", b"", announced=size)
                for _ in range(size // part):
                    publishers[number].send(body.ContentBody(bytes([number]) * part))
                    await publishers[number].drain()

            await asyncio.gather(*map(publish, range(4)))
            async with asyncio.timeout(10):
                while (await watcher.call(commands.Queue.Declare(queue="q", passive=True))).message_count < 4:
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def test_both_sides_give_signs_of_life(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path) as here:
            client = await here.client(heartbeat_s=1)
            for _ in range(2):
                assert isinstance(await client.receive(), heartbeat.Heartbeat)
            with pytest.raises(asyncio.IncompleteReadError):  # it gave none itself
                await client.receive_bodies(1)

    asyncio.run(run())


def test_who_does_not_log_in_has_to_leave(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path, ServerLimits(handshake_ms=200, drain_ms=500)) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(run())


def test_clients_are_told_that_the_broker_stops(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path) as here:
            client = await here.client()
            stopping = asyncio.create_task(here.server.stop())
            told = await client.receive()
            assert isinstance(told, commands.Connection.Close)
            assert told.reply_code == 320
            client.send(commands.Connection.CloseOk(), 0)
            await stopping

    asyncio.run(run())


def test_more_connections_than_allowed_are_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with house(tmp_path, ServerLimits(drain_ms=500), guests=Guests(2)) as here:
            kept = [await here.client(), await here.client()]
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await here.client()
            kept[0].close()
            await until(lambda: len(here.server._connections) == 1)
            await here.client()

    asyncio.run(run())
