"""Batches that it takes long to look into keep nobody waiting but their own producer."""

import asyncio
import gc
import threading
from struct import unpack_from

import pytest
from connection_kit import (
    PRODUCE_VERSION,
    Wire,
    connect,
    new_server,
    produce_request,
    receive,
    with_connection,
)

from mainstem.broker import looking
from mainstem.broker.admin import configure_topic, delete_topic
from mainstem.broker.broker import Broker
from mainstem.broker.looking import LIGHT_BYTES
from mainstem.fronts.kafka import slices
from mainstem.fronts.kafka.connection import Connection
from mainstem.fronts.kafka.inbox import Slab
from mainstem.model.batch import ZSTD
from mainstem.model.records import Record, encode_batch
from mainstem.wire.kafka.codec import decoder
from mainstem.wire.kafka.produce import ProduceResponse

SMALL = bytes(encode_batch([Record(0, 1, b"k", b"v")]))
HEAVY = bytes(encode_batch([Record(0, 1, b"k", bytes(LIGHT_BYTES))] * 2, codec=ZSTD))
BAD = bytearray(HEAVY)
BAD[40] ^= 1  # its crc is wrong
INVALID_RECORD, CORRUPT_MESSAGE, UNKNOWN_TOPIC, MESSAGE_TOO_LARGE = 87, 2, 3, 10


class Gate:
    """Holds the thread that looks, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        real = looking.look

        def held(*args: object) -> object:
            self.reached.set()
            assert self._open.wait(30)
            return real(*args)

        monkeypatch.setattr(looking, "look", held)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch):
    made = Gate(monkeypatch)
    yield made
    made.open()


async def answers(wire: Wire, count: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """So many of them: number of the request, and (error, offset) for each partition."""
    found: list[tuple[int, list[tuple[int, int]]]] = []
    async with asyncio.timeout(30):
        while True:
            found.clear()
            at, written = 0, bytes(wire.written)
            while at < len(written):
                size, number = unpack_from(">ii", written, at)
                message, _ = decoder(ProduceResponse, PRODUCE_VERSION)(
                    memoryview(written)[at + 9 : at + 4 + size], 0
                )
                parts = message.responses[0].partition_responses
                found.append((number, [(part.error_code, part.base_offset) for part in parts]))
                at += 4 + size
            if len(found) >= count:
                return found
            wire.came.clear()
            await wire.came.wait()


def test_others_are_served_while_a_heavy_batch_is_looked_at_and_its_own_connection_keeps_its_order(
    tmp_path, gate
):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        await broker.create_topic("t")
        server = new_server(broker)
        (slow, slow_wire), (other, other_wire) = connect(server), connect(server)
        receive(
            slow,
            produce_request(-1, SMALL, number=1)
            + produce_request(-1, HEAVY, number=2)
            + produce_request(-1, SMALL, number=3),
        )
        await asyncio.to_thread(gate.reached.wait, 30)
        receive(other, produce_request(-1, SMALL, number=4))
        assert await answers(other_wire, 1) == [(4, [(0, 1)])]
        assert await answers(slow_wire, 1) == [(1, [(0, 0)])]
        gate.open()
        assert await answers(slow_wire, 3) == [(1, [(0, 0)]), (2, [(0, 2)]), (3, [(0, 4)])]
        for connection in (slow, other):
            connection.connection_lost(None)

    with_connection(tmp_path, work)


def test_the_batches_behind_a_heavy_one_in_its_request_are_taken_after_it(tmp_path, gate):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t", 4)
        receive(connection, produce_request(-1, SMALL, HEAVY, bytes(BAD), SMALL))
        await asyncio.to_thread(gate.reached.wait, 30)
        assert [partition.next_offset for partition in topic.partitions] == [1, 0, 0, 0]
        gate.open()
        assert await answers(wire, 1) == [(1, [(0, 0), (0, 0), (CORRUPT_MESSAGE, -1), (0, 0)])]

    with_connection(tmp_path, work)


def test_a_topic_that_is_deleted_while_its_batch_is_looked_at_gets_it_no_more(tmp_path, gate):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t")
        receive(connection, produce_request(-1, HEAVY))
        await asyncio.to_thread(gate.reached.wait, 30)
        await delete_topic(broker, topic)
        gate.open()
        assert await answers(wire, 1) == [(1, [(UNKNOWN_TOPIC, -1)])]

    with_connection(tmp_path, work)


def test_a_topic_that_is_changed_meanwhile_gets_it_as_it_wants_it_now(tmp_path, gate):
    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t")
        keyless = bytes(encode_batch([Record(0, 1, None, bytes(LIGHT_BYTES * 2))], codec=ZSTD))
        receive(connection, produce_request(-1, keyless))
        await asyncio.to_thread(gate.reached.wait, 30)
        await configure_topic(broker, topic, {"cleanup.policy": "compact"})
        gate.open()
        assert await answers(wire, 1) == [(1, [(INVALID_RECORD, -1)])]
        assert topic.partitions[0].next_offset == 0

    with_connection(tmp_path, work)


def test_nothing_is_written_for_who_left_meanwhile(tmp_path, gate):
    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        topic = await broker.create_topic("t")
        server = new_server(broker)
        (gone, gone_wire), (other, other_wire) = connect(server), connect(server)
        receive(gone, produce_request(-1, HEAVY))
        await asyncio.to_thread(gate.reached.wait, 30)
        gone.connection_lost(None)
        gate.open()
        receive(other, produce_request(-1, HEAVY, number=2))  # looked at after the other
        assert await answers(other_wire, 1) == [(2, [(0, 0)])]
        assert topic.partitions[0].next_offset == 2
        assert not gone_wire.written
        other.connection_lost(None)

    with_connection(tmp_path, work)


def test_what_needs_no_answer_is_written_though_its_client_has_left(tmp_path, gate):
    """All that came whole, in its order, the light ones that waited behind a heavy one too; nothing else."""

    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t", 2)
        server = new_server(broker)
        gone, gone_wire = connect(server)
        acked = produce_request(-1, SMALL, SMALL)
        sent = [produce_request(0, SMALL, HEAVY), *[produce_request(0, SMALL)] * 300, acked]
        receive(gone, b"".join(sent) + acked[:-1])
        await asyncio.to_thread(gate.reached.wait, 30)
        gone.connection_lost(None)
        receive(connection, produce_request(-1, SMALL, number=2))
        assert (await answers(wire, 1))[0][0] == 2
        gate.open()
        async with asyncio.timeout(30):
            while gone.is_answering or server.budget._used:
                await asyncio.sleep(0)
        assert [partition.next_offset for partition in topic.partitions] == [302, 2]
        assert not gone_wire.written
        assert server.budget._used == 0

    with_connection(tmp_path, work)


def test_batches_of_clients_that_left_take_no_memory_while_they_would_wait_for_their_turn(tmp_path, gate):
    filler = bytes(encode_batch([Record(0, 1, b"k", bytes(500_000))]))

    def slabs() -> int:
        gc.collect()
        return sum(type(one) is Slab and len(one.data) > 400_000 for one in gc.get_objects())

    async def work(broker: Broker, connection: Connection, _: Wire) -> None:
        await broker.create_topic("t", 3)
        server = new_server(broker)
        receive(connection, produce_request(-1, HEAVY, filler))
        await asyncio.to_thread(gate.reached.wait, 30)
        assert slabs() == 1
        for _number in range(5):
            gone, _gone_wire = connect(server)
            receive(gone, produce_request(-1, HEAVY, filler, filler))
            gone.connection_lost(None)
            del gone
        assert slabs() == 1
        gate.open()

    with_connection(tmp_path, work)


@pytest.mark.parametrize("acks", [0, 1])
def test_a_bomb_is_refused_and_who_wants_no_answer_is_cut_off(tmp_path, acks):
    bomb = bytes(encode_batch([Record(0, 1, b"k", bytes(65 << 20))], codec=ZSTD))

    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t", 2)
        receive(connection, produce_request(acks, SMALL, bomb))
        if acks:
            assert await answers(wire, 1) == [(1, [(0, 0), (MESSAGE_TOO_LARGE, -1)])]
        async with asyncio.timeout(30):
            while not acks and not wire.closed:
                await asyncio.sleep(0)
        assert wire.closed == (acks == 0)
        assert [partition.next_offset for partition in topic.partitions] == [1, 0]

    with_connection(tmp_path, work)


def test_a_request_of_many_batches_is_taken_in_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(slices, "SLICE_S", 0)  # time is up at once

    async def work(broker: Broker, connection: Connection, wire: Wire) -> None:
        topic = await broker.create_topic("t", 50)
        receive(connection, produce_request(-1, *[SMALL] * 50))
        taken = set()
        async with asyncio.timeout(30):
            while len(taken) < 50:
                taken.add(sum(partition.next_offset for partition in topic.partitions))
                await asyncio.sleep(0)
        assert await answers(wire, 1) == [(1, [(0, 0)] * 50)]

    with_connection(tmp_path, work)


@pytest.mark.parametrize("case", ["heavy and bad", "bad acks"])
def test_what_was_refused_is_not_kept_until_garbage_is_collected(tmp_path, case):
    """Its budget is given back with the answer: so must its memory be."""
    bad = bytes(encode_batch([Record(0, 1, b"k", bytes(65 << 20))], codec=ZSTD))
    filler = bytes(encode_batch([Record(0, 1, b"k", bytes(500_000))]))
    sent = produce_request(-1, bad, filler) if case == "heavy and bad" else produce_request(5, filler)

    async def work(broker: Broker, _: Connection, __: Wire) -> None:
        await broker.create_topic("t", 2)
        connection, wire = connect(new_server(broker))
        gc.collect()
        gc.disable()
        try:
            receive(connection, sent)
            await answers(wire, 1)
            connection.connection_lost(None)
            del connection
            async with asyncio.timeout(10):  # the thread that looked may not have let go yet
                while [one for one in gc.get_objects() if type(one) is Slab and len(one.data) > 400_000]:
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()

    with_connection(tmp_path, work)
