"""What begun requests may take of memory, and how long those who hold it may stand still."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from connection_kit import LOG, Wire, connect, receive

from mainstem.broker.access import OpenAccess
from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.fronts.kafka.connection import LIVELY_BYTES, Connection
from mainstem.fronts.kafka.server import KafkaServer, ServerLimits
from mainstem.fronts.kafka.session import Listener
from mainstem.wire.kafka.apis import SPECS, ApiKey
from mainstem.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.wire.kafka.frames import encode_request
from mainstem.wire.kafka.groups import JoinGroupRequest, JoinGroupRequestProtocol

FRAME = 100_000
BEGUN = struct.pack(">i", FRAME) + bytes(1000)
ROOM = 2 * FRAME + 1000  # for two of them
FLEXIBLE_FETCH = 12  # a long rack makes it a long request
STALL_S = ServerLimits().stall_ms / 1000


class House:
    """A server with little memory, whose clock is turned by hand."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.server = KafkaServer(
            Listener("kafka", broker, OpenAccess()), ServerLimits(max_buffered_bytes=ROOM)
        )
        self.now = 1000.0
        self.server.now = lambda: self.now  # type: ignore[method-assign]
        self.connections: list[Connection] = []

    def begin(self, data: bytes = BEGUN) -> tuple[Connection, Wire]:
        connection, wire = connect(self.server)
        self.connections.append(connection)
        receive(connection, data)
        return connection, wire

    def second(self) -> None:
        self.now += 1
        self.server.look_over(self.now)

    def close(self) -> None:
        for connection in self.connections:
            connection.connection_lost(None)


def with_house(folder: Path, work: Callable[[House], Awaitable[None]]) -> None:
    async def run() -> None:
        broker = await Broker.open(BrokerOptions(str(folder), log=LOG, merge=False))
        house = House(broker)
        try:
            await work(house)
        finally:
            house.close()
            await broker.close()

    asyncio.run(run())


def test_a_begun_request_of_a_hundred_kilobytes_waits_unread_while_others_fill_the_memory(tmp_path):
    async def work(house: House) -> None:
        (first, _), _, (_, late) = house.begin(), house.begin(), house.begin()
        assert not late.reading
        _, small = house.begin(struct.pack(">i", 60_000) + bytes(1000))
        assert small.reading
        first.connection_lost(None)
        assert late.reading

    with_house(tmp_path, work)


def test_who_stands_still_in_the_middle_of_a_request_of_a_hundred_kilobytes_is_closed(tmp_path):
    async def work(house: House) -> None:
        _, wire = house.begin()
        _, small = house.begin(BEGUN[:100].replace(BEGUN[:4], struct.pack(">i", 1000)))
        for _ in range(int(STALL_S) + 1):
            assert not wire.closed
            house.second()
        assert wire.closed
        assert not small.closed

    with_house(tmp_path, work)


def test_a_byte_now_and_then_keeps_memory_only_while_nobody_waits_for_it(tmp_path):
    async def work(house: House) -> None:
        slow, slow_wire = house.begin()
        for _ in range(int(STALL_S) + 1):
            receive(slow, b"\0")
            house.second()
        assert not slow_wire.closed
        (steady, steady_wire), (_, late) = house.begin(), house.begin()
        assert not late.reading
        receive(slow, b"\0")
        receive(steady, bytes(LIVELY_BYTES))
        house.second()
        assert slow_wire.closed
        assert not steady_wire.closed

    with_house(tmp_path, work)


def test_who_was_kept_waiting_has_its_time_from_then_on(tmp_path):
    async def work(house: House) -> None:
        (first, _), (second, _), (_, late) = house.begin(), house.begin(), house.begin()
        for _ in range(int(STALL_S) + 1):
            house.second()
        first.connection_lost(None)
        second.connection_lost(None)
        house.second()
        assert late.reading
        assert not late.closed

    with_house(tmp_path, work)


def test_a_large_request_that_is_parked_counts_even_if_it_came_whole(tmp_path):
    async def work(house: House) -> None:
        parked, _ = house.begin(parked_join())
        _, late = house.begin()
        assert not late.reading
        parked.connection_lost(None)
        assert late.reading

    with_house(tmp_path, work)


def parked_fetch() -> bytes:
    wanted = FetchPartition(partition=0, partition_max_bytes=1)
    topics = [FetchTopic(topic="t", partitions=[wanted])]
    message = FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1, rack_id="r" * 2 * FRAME, topics=topics)
    return encode_request(SPECS[ApiKey.FETCH], FLEXIBLE_FETCH, 1, "me", message)


def parked_join() -> bytes:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(2 * FRAME))]
    message = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    return encode_request(SPECS[ApiKey.JOIN_GROUP], 3, 1, "me", message)


@pytest.mark.parametrize("others_wait", [False, True])
@pytest.mark.parametrize("request_bytes", [parked_fetch, parked_join])
def test_a_parked_request_holds_memory_for_long_only_while_nobody_waits_for_it(
    tmp_path, request_bytes, others_wait
):
    """A fetch is answered early, with nothing; of any other the client is told by its end."""

    async def work(house: House) -> None:
        await house.broker.create_topic("t")
        _, parked = house.begin(request_bytes())
        late = house.begin()[1] if others_wait else None
        house.second()
        for _ in range(int(STALL_S)):
            await asyncio.sleep(0)
            assert not parked.written
            assert not parked.closed
            house.second()
        house.second()
        for _ in range(5):
            await asyncio.sleep(0)
        is_fetch = request_bytes is parked_fetch
        assert bool(parked.written) == (others_wait and is_fetch)
        assert parked.closed == (others_wait and not is_fetch)
        if late is not None:
            for connection in house.connections[:1]:
                if parked.closed:
                    connection.connection_lost(None)
            assert late.reading

    with_house(tmp_path, work)


def test_no_more_parked_requests_are_ended_than_make_room_for_who_waits_and_fetches_first(tmp_path):
    async def work(house: House) -> None:
        await house.broker.create_topic("t")
        house.server.budget._max_bytes = 4 * 2 * FRAME + 10_000
        joins = [house.begin(parked_join())[1] for _ in range(2)]
        fetches = [house.begin(parked_fetch())[1] for _ in range(2)]
        for _ in range(int(STALL_S) + 2):
            await asyncio.sleep(0)
            house.second()
        _, late = house.begin()
        assert not late.reading
        house.second()
        for _ in range(5):
            await asyncio.sleep(0)
        assert sum(bool(wire.written) for wire in fetches) == 1
        assert not any(wire.closed for wire in joins)
        assert late.reading

    with_house(tmp_path, work)


def test_a_few_bytes_of_a_request_do_not_keep_a_silent_connection(tmp_path):
    async def work(house: House) -> None:
        _, wire = house.begin(b"\0\0")
        house.now += ServerLimits().idle_ms / 1000
        house.second()
        assert wire.closed

    with_house(tmp_path, work)
