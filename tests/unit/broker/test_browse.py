"""Looking at a queue's messages changes nothing about them."""

from __future__ import annotations

from pathlib import Path

from queue_kit import declare, publish, run, take_all

from mainstem.broker.queues import Namespace, Queues
from mainstem.broker.queues.browse import browse, find


async def seen(queues: Queues, queue, held: bool = False) -> list[tuple[int, int, bool, bytes]]:
    found = browse(queues._store, queue, held)
    return [(one.lane.index, one.offset, one.again, one.body()) async for one in found]


def test_messages_are_seen_in_the_order_in_which_they_would_be_taken(tmp_path: Path):
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", max_priority=1)
        await publish(queues, ns, "work", b"a", b"b", b"c")
        await publish(queues, ns, "work", b"urgent", priority=1)
        expected = [(1, 0, False, b"urgent"), (0, 0, False, b"a"), (0, 1, False, b"b"), (0, 2, False, b"c")]
        assert await seen(queues, queue) == expected
        assert await seen(queues, queue) == expected
        assert (queue.ready, queue.unacked) == (4, 0)
        first = await queue.get()
        second = await queue.get()
        assert first is not None
        assert second is not None
        assert await seen(queues, queue, held=True) == [(1, 0, True, b"urgent"), (0, 0, True, b"a")]
        queue.give_back(0, 0, 1)
        queue.ack(1, 0, 1)
        assert await seen(queues, queue) == [(0, 0, True, b"a"), (0, 1, False, b"b"), (0, 2, False, b"c")]
        assert await take_all(queue) == [b"a", b"b", b"c"]

    run(tmp_path, act)


def test_what_is_taken_or_done_meanwhile_is_known(tmp_path: Path):
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a", b"b")
        first, second = [one async for one in browse(queues._store, queue)]
        assert (first.is_ready, first.is_done) == (True, False)
        assert await queue.get() is not None
        assert (first.is_ready, first.is_done) == (False, False)
        queue.ack(0, 0, 1)
        assert (first.is_ready, first.is_done) == (False, True)
        assert second.is_ready

    run(tmp_path, act)


def test_one_message_is_found_by_its_place_until_it_is_done_with(tmp_path: Path):
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a", b"b")
        found = await find(queues._store, queue, 0, 1)
        assert found is not None
        assert (found.body(), found.body(0), found.body_bytes, found.key()) == (b"b", b"", 1, b"work")
        queue.ack(0, 1, 2)
        for lane, offset in ((0, 1), (0, 2), (1, 0), (0, -1), (-1, 0)):
            assert await find(queues._store, queue, lane, offset) is None

    run(tmp_path, act)
