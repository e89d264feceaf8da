"""Queues over a real log: what is published is taken once, in order, and survives a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from queue_kit import Eager, add, bodies, declare, eventually, on_disk, publish, run, take_all

from mainstem.broker.queues import ExchangeSpec, Namespace, Queues, QueueSpec, Target
from mainstem.model.errors import (
    ExchangeInUse,
    Inequivalent,
    NotForClients,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    UnknownNamespace,
    UnknownQueue,
)


def test_messages_come_in_order_and_an_ack_outlives_a_restart(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a", b"b", b"c")
        taker = Eager(2)
        queue.subscribe(taker)
        assert await taker.until(2) == [b"a", b"b"]
        assert (queue.ready, queue.unacked) == (1, 2)
        queue.ack(0, 0, 1)
        await queues.acks.on_disk()

    async def second(queues: Queues, ns: Namespace) -> None:
        queue = ns.queues["work"]
        assert (queue.ready, queue.unacked) == (2, 0)
        found = await queue.get()
        assert found is not None
        assert bodies(found) == [b"b"]
        assert found.again, "it may have been delivered before the restart"

    run(tmp_path, first, second)


def test_what_is_given_back_comes_again_ahead_of_newer_ones(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a", b"b", b"c")
        first = await queue.get()
        second = await queue.get()
        assert first is not None
        assert second is not None
        queue.give_back(0, second.first, second.first + 1)
        queue.give_back(0, first.first, first.first + 1)
        assert await take_all(queue) == [b"a", b"b", b"c"]

    run(tmp_path, act)


def test_messages_through_different_routes_keep_their_order_in_a_queue(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        one, both = await declare(queues, ns, "one"), await declare(queues, ns, "both")
        await queues.topology.bind(ns, "amq.direct", Target("queue", "both"), "k", {})
        await queues.topology.bind(ns, "amq.direct", Target("queue", "one"), "k", {})
        await queues.topology.bind(ns, "amq.direct", Target("queue", "one"), "only", {})
        shared = queues.route(ns, "amq.direct", ("k",))
        alone = queues.route(ns, "amq.direct", ("only",))
        for index in range(6):
            add(queues.gather(alone if index % 2 else shared), b"%d" % index)
        await on_disk(queues)
        assert await take_all(one) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert await take_all(both) == [b"0", b"2", b"4"]

    run(tmp_path, act)


def test_fan_out_writes_a_body_once(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        for index in range(20):
            await declare(queues, ns, f"q{index}")
            await queues.topology.bind(ns, "amq.fanout", Target("queue", f"q{index}"), "", {})
        before = queues.log.bytes_written
        await publish(queues, ns, "", b"x" * 10_000, exchange="amq.fanout")
        assert queues.log.bytes_written - before < 20_000
        for index in range(20):
            assert await take_all(ns.queues[f"q{index}"]) == [b"x" * 10_000]

    run(tmp_path, act)


def test_a_rejected_message_becomes_a_dead_letter_with_its_history(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", dead_letter_exchange="", dead_letter_key="dead")
        dead = await declare(queues, ns, "dead")
        await publish(queues, ns, "work", b"a", b"b")
        found = await queue.get()
        assert found is not None
        queue.reject(found.lane, found.first, found.first + 1)
        await eventually(lambda: dead.ready == 1)
        assert (queue.ready, queue.unacked) == (1, 0)

    async def second(queues: Queues, ns: Namespace) -> None:
        assert ns.queues["work"].ready == 1
        found = await ns.queues["dead"].get()
        assert found is not None
        assert bodies(found) == [b"a"]
        headers = found.batch.headers(found.at)
        (death,) = msgspec.msgpack.decode(headers["dead"] or b"")
        assert death[:3] == ["work", "rejected", 1]
        assert death[4:6] == ["", ["work"]]
        assert headers["route"] == b"\0\x04dead"

    run(tmp_path, first, second)


def test_expired_messages_go_without_anybody_taking_them(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "short", message_ttl_ms=30, dead_letter_exchange="amq.fanout")
        dead = await declare(queues, ns, "dead")
        await queues.topology.bind(ns, "amq.fanout", Target("queue", "dead"), "", {})
        await publish(queues, ns, "short", b"a", b"b", b"c")
        await eventually(lambda: dead.ready == 3 and not queue.ready)
        assert await take_all(dead) == [b"a", b"b", b"c"]

    run(tmp_path, act)


def test_a_message_with_its_own_time_to_live_is_not_delivered_after_it(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        route = queues.route(ns, "", ("work",))
        now_ms = queues.now_ms()
        add(queues.gather(route), b"late", expires_ms=now_ms - 1)
        add(queues.gather(route), b"in time", expires_ms=now_ms + 60_000)
        add(queues.gather(route), b"late too", expires_ms=now_ms - 1)
        await on_disk(queues)
        assert await take_all(queue) == [b"in time"]
        assert (queue.ready, queue.unacked) == (0, 1)

    run(tmp_path, act)


def test_beyond_its_length_a_queue_loses_its_oldest_or_refuses(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "newest", max_length=2)
        await publish(queues, ns, "newest", b"a", b"b", b"c", b"d")
        await eventually(lambda: queue.ready == 2)
        assert await take_all(queue) == [b"c", b"d"]
        await declare(queues, ns, "oldest", max_length=2, overflow="reject-publish")
        route = queues.route(ns, "", ("oldest",))
        assert not queues.full(route)
        add(queues.gather(route), b"a")
        add(queues.gather(route), b"b")
        assert queues.full(route), "those of this turn count"
        await on_disk(queues)
        assert queues.full(route)

    run(tmp_path, act)


def test_beyond_its_bytes_a_queue_loses_its_oldest(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "small", max_bytes=10)
        await publish(queues, ns, "small", b"a" * 4, b"b" * 4, b"c" * 4)
        await eventually(lambda: queue.ready == 2)
        assert await take_all(queue) == [b"bbbb", b"cccc"]

    run(tmp_path, act)


def test_urgent_messages_come_first(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", max_priority=5)
        await publish(queues, ns, "work", b"low", priority=1)
        await publish(queues, ns, "work", b"high", priority=9)
        await publish(queues, ns, "work", b"none")
        assert await take_all(queue) == [b"high", b"low", b"none"]

    run(tmp_path, act)


def test_a_message_that_came_back_too_often_is_buried(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(
            queues, ns, "work", delivery_limit=2, dead_letter_exchange="", dead_letter_key="dead"
        )
        dead = await declare(queues, ns, "dead")
        await publish(queues, ns, "work", b"poison")
        for _ in range(3):
            found = await queue.get()
            assert found is not None
            queue.give_back(found.lane, found.first, found.first + 1)
        await eventually(lambda: dead.ready == 1)
        assert await queue.get() is None

    run(tmp_path, act)


def test_a_transaction_is_seen_as_a_whole(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        source, target = await declare(queues, ns, "source"), await declare(queues, ns, "target")
        await publish(queues, ns, "source", b"in")
        found = await source.get()
        assert found is not None
        work = queues.transaction()
        add(work.gather(queues.route(ns, "", ("target",))), b"out")
        work.ack(source, found.lane, found.first, found.first + 1)
        assert (source.unacked, target.ready) == (1, 0)
        await work.commit()
        assert (source.unacked, target.ready) == (0, 1)

    async def second(queues: Queues, ns: Namespace) -> None:
        assert (ns.queues["source"].ready, ns.queues["target"].ready) == (0, 1)

    run(tmp_path, first, second)


def test_queues_and_exchanges_that_are_not_durable_are_gone_after_a_restart(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        await declare(queues, ns, "kept")
        await declare(queues, ns, "gone", durable=False)
        await queues.topology.declare_exchange(ns, ExchangeSpec("kept", "topic"))
        await queues.topology.declare_exchange(ns, ExchangeSpec("gone", "topic", durable=False))
        await queues.topology.bind(ns, "kept", Target("queue", "kept"), "a.*", {})
        await queues.topology.add_namespace("other")

    async def second(queues: Queues, ns: Namespace) -> None:
        assert set(ns.queues) == {"kept"}
        assert "kept" in ns.exchanges
        assert "gone" not in ns.exchanges
        assert [(b.source, b.target.name, b.key) for b in ns.router.bindings()] == [("kept", "kept", "a.*")]
        assert queues.topology.namespace("other").queues == {}

    run(tmp_path, first, second)


def test_declarations_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        topology = queues.topology
        await declare(queues, ns, "work")
        with pytest.raises(Inequivalent, match="durable"):
            await declare(queues, ns, "work", durable=False)
        with pytest.raises(UnknownQueue):
            topology.queue(ns, "nowhere")
        me, other = object(), object()
        await topology.declare_queue(ns, QueueSpec("mine", exclusive=True), me)
        with pytest.raises(QueueLocked):
            topology.queue(ns, "mine", other)
        await topology.owner_gone(me)
        assert "mine" not in ns.queues
        with pytest.raises(NotForClients):
            await topology.delete_exchange(ns, "amq.direct")
        await topology.declare_exchange(ns, ExchangeSpec("ex", "direct"))
        await topology.bind(ns, "ex", Target("queue", "work"), "k", {})
        with pytest.raises(ExchangeInUse):
            await topology.delete_exchange(ns, "ex", if_unused=True)
        await publish(queues, ns, "work", b"a")
        with pytest.raises(QueueNotEmpty):
            await topology.delete_queue(ns.queues["work"], if_empty=True)
        queue = ns.queues["work"]
        queue.subscribe(Eager(), exclusive=True)
        with pytest.raises(QueueInUse):
            queue.subscribe(Eager())
        with pytest.raises(QueueInUse):
            await topology.delete_queue(queue, if_unused=True)

    run(tmp_path, act)


def test_a_deleted_queue_tells_those_who_take_from_it(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        taker = Eager()
        queue.subscribe(taker)
        assert await queues.topology.delete_queue(queue) == 0
        assert taker.gone == "it was deleted"
        assert "work" not in ns.queues

    run(tmp_path, act)


def test_a_queue_that_deletes_itself_goes_with_its_last_consumer_or_when_unused(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        topology = queues.topology
        queue = await topology.declare_queue(ns, QueueSpec("auto", auto_delete=True))
        taker = Eager()
        queue.subscribe(taker)
        queue.unsubscribe(taker)
        await eventually(lambda: "auto" not in ns.queues)
        await declare(queues, ns, "idle", expires_ms=20)
        await eventually(lambda: "idle" not in ns.queues)

    run(tmp_path, act)


def test_acks_pending_when_the_broker_stops_are_kept(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        await publish(queues, ns, "work", b"a", b"b")
        assert await take_all(queue) == [b"a", b"b"]
        queue.ack(0, 1, 2)

    async def second(queues: Queues, ns: Namespace) -> None:
        assert await take_all(ns.queues["work"]) == [b"a"]
        await asyncio.sleep(0)

    run(tmp_path, first, second)


def test_a_delayed_message_comes_when_it_is_due_and_survives_a_restart(tmp_path: Path) -> None:
    def hold(queues: Queues, body: bytes, ms_ahead: int) -> None:
        gathered = queues.gather_delayed(queues.now_ms() + ms_ahead)
        add(gathered, body, "work")

    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        hold(queues, b"later", 220)
        hold(queues, b"sooner", 180)
        hold(queues, b"next year", 365 * 86_400_000)
        hold(queues, b"never", 90 * 86_400_000)
        await on_disk(queues)
        assert len(queues.delays) >= 2
        await eventually(lambda: queue.ready == 2)
        assert await take_all(queue) == [b"sooner", b"later"]
        waiting = await queues.delays.pending(10)
        assert [(one.exchange, one.keys, one.size) for one in waiting] == [
            ("", ["work"], 5),
            ("", ["work"], 9),
        ]
        assert await queues.delays.cancel(waiting[0].id)
        assert not await queues.delays.cancel(waiting[0].id)
        queue.ack(0, 0, 2)
        hold(queues, b"overdue at start", 5)
        await on_disk(queues)

    async def second(queues: Queues, ns: Namespace) -> None:
        queue = ns.queues["work"]
        await eventually(lambda: queue.ready == 1)
        assert await take_all(queue) == [b"overdue at start"]
        (left,) = await queues.delays.pending(10)
        assert left.size == 9

    run(tmp_path, first, second)


def test_a_message_that_expires_goes_from_a_queue_without_consumers(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work", dead_letter_exchange="", dead_letter_key="dead")
        dead = await declare(queues, ns, "dead")
        add(queues.gather(queues.route(ns, "", ("work",))), b"a", "work", expires_ms=queues.now_ms() + 20)
        await eventually(lambda: dead.ready == 1)
        assert queue.ready == 0
        found = await dead.get()
        assert found is not None, "it does not expire again where it came to"

    run(tmp_path, act)


def test_delayed_messages_leave_the_log_once_they_were_published(tmp_path: Path) -> None:
    async def first(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "work")
        for body in (b"a", b"b", b"c"):
            add(queues.gather_delayed(queues.now_ms() + 5), body, "work")
        add(queues.gather_delayed(1 << 62), b"in the year 9999", "work")
        await on_disk(queues)
        await eventually(lambda: queue.ready == 3)
        lane = next(lane for lane in queues.book.lanes.values() if lane.index == 0 and lane.state.end == 3)
        await eventually(lambda: lane.state.floor == 3 or lane.partition.log_start == 3)

    async def second(queues: Queues, ns: Namespace) -> None:
        assert ns.queues["work"].ready == 3
        (left,) = await queues.delays.pending(10)
        assert left.size == len(b"in the year 9999")

    run(tmp_path, first, second)


def test_a_message_that_cannot_be_written_does_not_harm_others(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        for name in ("one", "two", "three"):
            await declare(queues, ns, name)
        for name in ("one", "two"):
            await queues.topology.bind(ns, "amq.fanout", Target("queue", name), "", {})
        add(queues.gather(queues.route(ns, "amq.fanout", ("",))), b"x" * (65 << 20))
        add(queues.gather(queues.route(ns, "", ("three",))), b"small")
        told: list[str] = []
        queues.after_disk(lambda: told.append("written"), lambda: told.append("refused"))
        await eventually(lambda: bool(told))
        assert told == ["refused"]
        assert await take_all(ns.queues["three"]) == [b"small"]
        await publish(queues, ns, "one", b"next")
        assert await take_all(ns.queues["one"]) == [b"next"]

    run(tmp_path, act)


def test_a_namespace_that_was_deleted_spoils_no_route_of_its_successor(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        old = await queues.topology.add_namespace("shop")
        await queues.topology.drop_namespace("shop")
        new = await queues.topology.add_namespace("shop")
        await declare(queues, new, "work")
        with pytest.raises(UnknownNamespace):
            queues.route(old, "", ("work",))
        assert queues.route(new, "", ("work",)).queues

    run(tmp_path, act)


def test_many_expired_messages_go_in_turns(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        queue = await declare(queues, ns, "short", message_ttl_ms=1)
        await publish(queues, ns, "short", *(b"%d" % number for number in range(20_000)))
        await eventually(lambda: not queue.ready and not queue.unacked)

    run(tmp_path, act)


def test_a_disk_that_does_not_keep_up_stops_publishers_before_the_memory_is_full(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await declare(queues, ns, "work")
        told: list[str | None] = []
        queues.on_blocked.append(told.append)
        route = queues.route(ns, "", ("work",))
        for _ in range(10):  # in one turn: nothing of it can be on disk yet
            add(queues.gather(route), b"x" * (8 << 20))
        await on_disk(queues)
        await eventually(lambda: queues.blocked is None)
        assert [why is None for why in told] == [False, True]
        assert "does not keep up" in (told[0] or "")

    run(tmp_path, act)
