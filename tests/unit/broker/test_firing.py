"""Delayed messages that are due together are published together, in the order of their times."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest
from queue_kit import add, declare, eventually, on_disk, run, take_all

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.queues import ExchangeSpec, Namespace, Queues, Target, firing
from mainstem.broker.queues.firing import COPIED_BYTES
from mainstem.broker.store import Section
from mainstem.kernel.log.log import LogOptions
from mainstem.model.errors import DiskFull, InvalidRequest
from mainstem.model.labels import Labels
from mainstem.testing.memory_disk import MemoryDisk

AHEAD_MS = 400
LONG = bytes(COPIED_BYTES)


def test_what_was_held_in_any_order_comes_in_the_order_of_its_time(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        first_ms = queues.now_ms() + AHEAD_MS
        numbers = list(range(300))
        random.Random(7).shuffle(numbers)
        for number in numbers:
            add(queues.gather_delayed(first_ms + number // 3), b"%03d" % number, "work")
            if number % 7 == 0:
                await on_disk(queues)  # so that they lie in many batches
        await eventually(lambda: queue.ready == 300)
        came = await take_all(queue)
        # Those of one millisecond come in the order in which they were held.
        assert [int(body) // 3 for body in came] == [number // 3 for number in range(300)]
        assert sorted(came) == [b"%03d" % number for number in range(300)]

    run(tmp_path, act)


def test_those_that_are_due_together_lie_together(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        due_ms = queues.now_ms() + AHEAD_MS
        for number in range(10):
            add(queues.gather_delayed(due_ms), b"%d" % number, "work")
            await on_disk(queues)
        await eventually(lambda: queue.ready == 10)
        found = await queue.get()
        assert found is not None
        assert len(found.batch.spans) == 10

    run(tmp_path, act)


def test_long_messages_keep_their_place_on_disk_and_their_turn(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        first_ms = queues.now_ms() + AHEAD_MS
        for number in range(20):
            body = b"%02d" % number + (LONG if number % 3 == 0 else b"")
            add(queues.gather_delayed(first_ms + number), body, "work")
        await on_disk(queues)
        before = queues.log.bytes_written
        await eventually(lambda: queue.ready == 20)
        assert queues.log.bytes_written - before < 3 * len(LONG), "the long ones were written again"

    async def second(queues: Queues, ns: Namespace) -> None:
        came = await take_all(ns.queues["work"])
        assert [int(body[:2]) for body in came] == list(range(20))
        assert [len(body) for body in came] == [
            2 + (len(LONG) if number % 3 == 0 else 0) for number in range(20)
        ]

    run(tmp_path, first, second)


def test_each_goes_where_its_exchange_leads_when_it_is_due(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        one, two = await declare(queues, ns, "one"), await declare(queues, ns, "two")
        for name in ("both", "gone"):
            await queues.topology.declare_exchange(ns, ExchangeSpec(name, "fanout"))
            await queues.topology.bind(ns, name, Target("queue", "one"), "", {})
        await queues.topology.bind(ns, "both", Target("queue", "two"), "", {})
        due_ms = queues.now_ms() + AHEAD_MS
        for body, key, exchange in (
            (b"a", "", "both"),
            (b"b", "one", ""),
            (b"c", "", "gone"),
            (b"d", "nowhere", ""),
            (b"e", "", "both"),
        ):
            add(queues.gather_delayed(due_ms), body, key, exchange)
        await on_disk(queues)
        await queues.topology.delete_exchange(ns, "gone")
        await eventually(lambda: (one.ready, two.ready) == (3, 2))
        assert await take_all(one) == [b"a", b"b", b"e"]
        assert await take_all(two) == [b"a", b"e"]
        await eventually(lambda: len(queues.delays) == 0)

    run(tmp_path, act)


def test_a_time_to_live_counts_where_it_came_to(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", dead_letter_exchange="", dead_letter_key="dead")
        dead = await declare(queues, ns, "dead")
        now_ms = queues.now_ms()
        add(queues.gather_delayed(now_ms + 100), b"short", "work", expires_ms=now_ms + 300)
        add(queues.gather_delayed(now_ms + 100), b"lasting", "work")
        await on_disk(queues)
        await eventually(lambda: dead.ready == 1)
        assert await take_all(dead) == [b"short"]
        assert await take_all(queue) == [b"lasting"]

    run(tmp_path, act)


def test_one_that_cannot_be_published_holds_up_no_other(tmp_path: Path) -> None:
    def fails(_raw: bytes) -> Labels:
        raise ValueError("a bug")

    async def act(queues: Queues, ns: Namespace) -> None:
        queues.header_readers["amqp"] = fails
        queue = await declare(queues, ns, "work")
        due_ms = queues.now_ms() + AHEAD_MS
        add(queues.gather_delayed(due_ms), b"before", "work")
        add(queues.gather_delayed(due_ms), b"bad", "", "amq.headers")
        add(queues.gather_delayed(due_ms), b"behind", "work")
        await on_disk(queues)
        await eventually(lambda: queue.ready == 2)
        assert await take_all(queue) == [b"before", b"behind"]
        (left,) = await queues.delays.pending(10)
        assert left.exchange == "amq.headers"
        assert left.due_ms > queues.now_ms(), "it is tried again, later"

    run(tmp_path, act)


def test_on_a_full_disk_what_is_due_comes_all_the_same() -> None:
    async def play() -> None:
        disk = MemoryDisk("/data")
        options = LogOptions(file_bytes=64 << 10, reserve_bytes=16 << 10)
        broker = await Broker.open(BrokerOptions("/data", log=options), disk=disk)
        queues, ns = broker.queues, broker.queues.topology.namespace("/")
        queue = await declare(queues, ns, "work")
        add(queues.gather_delayed(queues.now_ms() + 2 * AHEAD_MS), b"due", "work")
        await on_disk(queues)
        disk.space_bytes = 0
        with contextlib.suppress(DiskFull):
            while True:
                await broker.store.commit(Section.NOTHING, b"x" * 1000)
        await eventually(lambda: queue.ready == 1)
        disk.space_bytes = 1 << 40
        await broker.close()

    asyncio.run(play())


def test_headers_that_nobody_can_read_lead_nowhere(tmp_path: Path) -> None:
    def refuses(_raw: bytes) -> Labels:
        raise InvalidRequest("these are no headers")

    async def act(queues: Queues, ns: Namespace) -> None:
        queues.header_readers["amqp"] = refuses
        await declare(queues, ns, "work")
        add(queues.gather_delayed(queues.now_ms() + 20), b"odd", "", "amq.headers")
        await on_disk(queues)
        await eventually(lambda: len(queues.delays) == 0)

    run(tmp_path, act)


def test_more_than_a_frame_takes_goes_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "FRAME_BYTES", 1000)

    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        due_ms = queues.now_ms() + AHEAD_MS
        for number in range(50):
            add(queues.gather_delayed(due_ms), b"%02d" % number, "work")
        await on_disk(queues)
        await eventually(lambda: queue.ready == 50)
        assert await take_all(queue) == [b"%02d" % number for number in range(50)]

    run(tmp_path, act)


def test_priorities_that_a_queue_does_not_have_do_not_part_messages(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        route = queues.route(ns, "", ("work",))
        for priority in range(10):
            add(queues.gather(route, priority), b"%d" % priority, "work")
        await on_disk(queues)
        found = await queue.get()
        assert found is not None
        assert len(found.batch.spans) == 10

    run(tmp_path, act)
