"""Messages with a time to live of their own expire though nobody takes from their queue."""

from __future__ import annotations

import time
from pathlib import Path

from queue_kit import add, declare, eventually, on_disk, run

from mainstem.broker.queues import Gathered, Namespace, Queues
from mainstem.broker.queues.dead_letters import join_route
from mainstem.model import record_loop

SOON_MS = 300


def soon_ms() -> int:
    return time.time_ns() // 1_000_000 + SOON_MS


async def declare_both(queues: Queues, ns: Namespace) -> None:
    await declare(queues, ns, "retry", dead_letter_exchange="", dead_letter_key="dead")
    await declare(queues, ns, "dead")


async def is_dead(queues: Queues, ns: Namespace) -> None:
    await eventually(lambda: ns.queues["dead"].ready == 1)
    assert ns.queues["retry"].ready == 0


def test_a_message_expires_after_a_restart(tmp_path: Path) -> None:
    async def before(queues: Queues, ns: Namespace) -> None:
        await declare_both(queues, ns)
        add(queues.gather(queues.route(ns, "", ("retry",))), b"x", "retry", expires_ms=soon_ms())
        await on_disk(queues)
        for lane in ns.queues["retry"].lanes:
            saved = lane.saved()
            assert saved is not None
            assert saved.expiring, "a snapshot would not know"

    run(tmp_path, before, is_dead)


def test_a_message_of_a_transaction_expires(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await declare_both(queues, ns)
        work = queues.transaction()
        add(work.gather(queues.route(ns, "", ("retry",))), b"x", "retry", expires_ms=soon_ms())
        await work.commit()
        await is_dead(queues, ns)

    run(tmp_path, act)


def test_a_delayed_message_expires_in_the_queue_it_came_to(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await declare_both(queues, ns)
        hold(queues.gather_delayed(soon_ms()), soon_ms() + SOON_MS)
        await on_disk(queues)
        await is_dead(queues, ns)

    run(tmp_path, act)


def hold(gathered: Gathered, expires_ms: int) -> None:
    headers = (
        ("route", join_route("", "retry")),
        ("amqp", b"\0\0"),
        ("space", b"/"),
        ("expires", expires_ms.to_bytes(8, "big")),
    )
    gathered.expiring = True
    coded = record_loop.encode_headers(headers)
    record_loop.append_record(gathered.out, 0, gathered.count, b"retry", b"x", coded)
    gathered.added(1)
