"""A broker with queues in a folder, and somebody who takes from them, for tests without a protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.queues import Found, Gathered, Namespace, Queue, QueueOptions, Queues, QueueSpec
from mainstem.broker.queues.dead_letters import join_route
from mainstem.kernel.log.log import LogOptions
from mainstem.model import record_loop

DEADLINE_S = 10
# What is filled in advance for each broker of each test should not fill a disk.
SMALL_FILES = LogOptions(file_bytes=4 << 20, reserve_bytes=256 << 10)


def run(folder: Path, *acts: Callable[[Queues, Namespace], Awaitable[None]]) -> None:
    """Each act with a broker of its own, one after the other, in the same folder."""

    async def play() -> None:
        for act in acts:
            broker = await Broker.open(BrokerOptions(folder=str(folder), log=SMALL_FILES))
            try:
                await act(broker.queues, broker.queues.topology.namespace("/"))
            finally:
                await broker.close()

    asyncio.run(play())


async def declare(queues: Queues, ns: Namespace, name: str, durable: bool = True, **options: object) -> Queue:
    wanted = QueueOptions(**options)  # type: ignore[arg-type]
    return await queues.topology.declare_queue(ns, QueueSpec(name, durable=durable, options=wanted))


def add(
    gathered: Gathered, body: bytes, key: str = "", exchange: str = "", expires_ms: int | None = None
) -> None:
    headers: tuple[tuple[str, bytes | None], ...] = (("route", join_route(exchange, key)), ("amqp", b"\0\0"))
    if expires_ms is not None:
        headers += (("expires", expires_ms.to_bytes(8, "big")),)
        gathered.expiring = True
    coded = record_loop.encode_headers(headers)
    record_loop.append_record(gathered.out, 0, gathered.count, key.encode(), body, coded)
    gathered.added(1)


async def publish(
    queues: Queues, ns: Namespace, key: str, *bodies: bytes, exchange: str = "", priority: int = 0
) -> None:
    """On disk when it returns."""
    route = queues.route(ns, exchange, (key,))
    for body in bodies:
        add(queues.gather(route, priority), body, key, exchange)
    await on_disk(queues)


async def on_disk(queues: Queues) -> None:
    done = asyncio.Event()
    queues.after_disk(done.set)
    await asyncio.wait_for(done.wait(), DEADLINE_S)


def bodies(found: Found) -> list[bytes]:
    spans = found.batch.spans[found.at : found.at + found.count]
    return [found.batch.data[span[6] : span[6] + span[7]] for span in spans]


class Eager:
    """Takes up to `credit` messages and keeps what it got: (lane, offset, again, body)."""

    def __init__(self, credit: int = -1, priority: int = 0) -> None:
        self.priority = priority
        self._credit = credit
        self.got: list[tuple[int, int, bool, bytes]] = []
        self.gone: str | None = None
        self._news = asyncio.Event()

    def credit(self) -> int:
        return self._credit

    def take(self, queue: Queue, found: list[Found]) -> None:
        for one in found:
            for index, body in enumerate(bodies(one)):
                self.got.append((one.lane, one.first + index, one.again, body))
            if self._credit > 0:
                self._credit -= one.count
        self._news.set()

    def cancelled(self, why: str) -> None:
        self.gone = why
        self._news.set()

    async def until(self, count: int) -> list[bytes]:
        """Its messages, once there are so many."""
        await eventually(lambda: len(self.got) >= count)
        return [body for *_, body in self.got]


async def eventually(is_so: Callable[[], bool]) -> None:
    until = asyncio.get_running_loop().time() + DEADLINE_S
    while not is_so():
        assert asyncio.get_running_loop().time() < until, "it did not happen in time"
        await asyncio.sleep(0.005)


async def take_all(queue: Queue) -> list[bytes]:
    taken: list[bytes] = []
    while (found := await queue.get()) is not None:
        taken += bodies(found)
    return taken
