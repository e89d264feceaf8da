"""Equal answers of routing are one route, so that what goes to the same queues is written together."""

from __future__ import annotations

from pathlib import Path

from queue_kit import add, bodies, declare, eventually, on_disk, run, take_all

from mainstem.broker.queues import ExchangeSpec, Namespace, Queues, Target
from mainstem.broker.queues import queues as queues_module
from mainstem.model import record_loop
from mainstem.model.labels import Labels


async def fan_by_header(queues: Queues, ns: Namespace, *names: str) -> None:
    """An exchange that leads to the queue that a header names."""
    await queues.topology.declare_exchange(ns, ExchangeSpec("by", "headers"))
    for name in names:
        await declare(queues, ns, name)
        await queues.topology.bind(ns, "by", Target("queue", name), "", {"to": name})


def labels(name: str, number: int = 0) -> Labels:
    return Labels({"to": name, "number": number}, {})


def test_messages_to_the_same_queues_share_a_route_whatever_their_headers(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await fan_by_header(queues, ns, "a", "b")
        first = queues.route(ns, "by", ("k",), labels("a"))
        assert [queue.name for queue in first.queues] == ["a"]
        assert queues.route(ns, "by", ("other",), labels("a", 7)) is first
        assert queues.route(ns, "by", ("k", "copy"), labels("a")) is first, "with further keys, too"
        assert queues.route(ns, "", ("a",)) is first, "by another exchange"
        assert queues.route(ns, "by", ("k",), labels("b")) is not first
        assert not queues.route(ns, "by", ("k",), labels("nobody")).queues

    run(tmp_path, act)


def test_a_turn_writes_one_batch_for_each_set_of_queues(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await fan_by_header(queues, ns, "a")
        for number in range(100):
            route = queues.route(ns, "by", (f"key-{number}",), labels("a", number))
            add(queues.gather(route), b"%d" % number, f"key-{number}", "by")
        await on_disk(queues)
        found = await ns.queues["a"].get()
        assert found is not None
        assert len(found.batch.spans) == 100
        assert [*bodies(found), *await take_all(ns.queues["a"])] == [b"%d" % number for number in range(100)]

    run(tmp_path, act)


def test_a_change_of_the_topology_makes_new_routes(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await fan_by_header(queues, ns, "a", "b")
        before = queues.route(ns, "by", ("k",), labels("a"))
        await queues.topology.bind(ns, "by", Target("queue", "b"), "", {"to": "a"})
        after = queues.route(ns, "by", ("k",), labels("a"))
        assert [queue.name for queue in after.queues] == ["a", "b"]
        await queues.topology.delete_queue(ns.queues["a"])
        await declare(queues, ns, "a")
        assert queues.route(ns, "", ("a",)) is not before
        assert queues.route(ns, "", ("a",)).queues == (ns.queues["a"],)

    run(tmp_path, act)


def test_so_many_routes_are_remembered_and_no_more(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(queues_module, "MAX_NAMES_IN_ROUTES", 4)  # a name each, and the entry itself

    async def act(queues: Queues, ns: Namespace) -> None:
        names = [f"q{number}" for number in range(6)]
        await fan_by_header(queues, ns, *names)
        for name in names * 2:
            (queue,) = queues.route(ns, "by", ("k",), labels(name)).queues
            assert queue.name == name
            assert len(queues._routes_by_queues) <= 2

    run(tmp_path, act)


def test_dead_letters_go_where_their_own_headers_lead(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await fan_by_header(queues, ns, "a", "b")
        queues.header_readers["amqp"] = lambda raw: Labels({"to": raw.decode()}, {})
        work = await declare(queues, ns, "work", dead_letter_exchange="by")
        gathered = queues.gather(queues.route(ns, "", ("work",)))
        for number, name in enumerate("abba"):
            headers = record_loop.encode_headers((("route", b"\0\x04work"), ("amqp", name.encode())))
            record_loop.append_record(gathered.out, 0, gathered.count, b"", b"%d" % number, headers)
            gathered.added(1)
        await on_disk(queues)
        while (found := await work.get()) is not None:
            work.reject(found.lane, found.first, found.first + found.count)
        await eventually(lambda: sum(ns.queues[name].ready for name in "ab") == 4)
        assert await take_all(ns.queues["a"]) == [b"0", b"3"]
        assert await take_all(ns.queues["b"]) == [b"1", b"2"]

    run(tmp_path, act)


def test_dead_letters_of_one_run_are_spread_by_an_exchange_that_picks(tmp_path: Path) -> None:
    async def act(queues: Queues, ns: Namespace) -> None:
        await queues.topology.declare_exchange(ns, ExchangeSpec("any", "x-local-random"))
        for name in ("a", "b"):
            await declare(queues, ns, name)
            await queues.topology.bind(ns, "any", Target("queue", name), "", {})
        work = await declare(queues, ns, "work", dead_letter_exchange="any")
        gathered = queues.gather(queues.route(ns, "", ("work",)))
        for number in range(40):
            add(gathered, b"%d" % number, "work")
        await on_disk(queues)
        while (found := await work.get()) is not None:
            work.reject(found.lane, found.first, found.first + found.count)
        await eventually(lambda: sum(ns.queues[name].ready for name in "ab") == 40)
        assert min(ns.queues[name].ready for name in "ab") > 5

    run(tmp_path, act)
