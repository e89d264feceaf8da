"""Whatever is asked over the door for queues is answered or refused in words: nothing makes it fail."""

from __future__ import annotations

import asyncio
import collections
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mainstem.broker.broker import Broker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.queues import ExchangeSpec, Target
from mainstem.fronts.admin import definitions
from mainstem.fronts.admin.calls import queue_calls
from mainstem.fronts.admin.door import Call
from mainstem.fronts.amqp.arguments import queue_spec
from mainstem.kernel.log.log import LogOptions
from mainstem.wire.amqp import properties

ASKS = 1500
ODD = ["", "/", "nope", "a\0b", "é" * 200, "*", "[", "(", "0", "7:0", "amq.x", "\ud800", "x" * 300, "a=1"]
ODD_VALUES: list[Any] = [None, True, -1, 1 << 70, 1.5, "text", [], [[[1]]], {"a": {"b": [None]}}, "é" * 200]
KEYS = [
    "x-max-length",
    "x-queue-type",
    "x-message-ttl",
    "x-match",
    "alternate-exchange",
    "CC",
    "BCC",
    "x-delay",
    "a",
]


class Guess:
    """Mostly what makes sense, now and then something else."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)

    def text(self, *good: str) -> str:
        return self.chance.choice(good if self.chance.random() < 0.85 else ODD)

    def number(self, low: int, high: int) -> int:
        return self.chance.randint(low, high) if self.chance.random() < 0.9 else 1 << 80

    def table(self) -> dict[str, Any]:
        if self.chance.random() < 0.4:
            return {}
        good = [1, "1", ["q", "dead"], "quorum", 5]
        return {
            self.text(*KEYS): self.chance.choice(good if self.chance.random() < 0.7 else ODD_VALUES)
            for _ in range(self.chance.randint(1, 3))
        }

    def message(self) -> dict[str, Any]:
        made: dict[str, Any] = {"body": self.text("hello"), "headers": self.table()}
        if self.chance.random() < 0.2:
            made["properties"] = {
                self.text("expiration", "priority", "type"): self.chance.choice(["1", 3, -1])
            }
        if self.chance.random() < 0.2:
            made["delay_ms"] = self.number(-1, 5)
        if self.chance.random() < 0.05:
            made["body_base64"] = self.text("aGk=")
        return made

    def entry(self) -> Any:
        if self.chance.random() < 0.1:
            return self.chance.choice(ODD_VALUES)
        fields = {**self.fields(), "type": self.text("topic", "quorum"), "destination": self.text("q", "x")}
        return {"name": self.text("q", "new"), **dict(self.chance.sample(list(fields.items()), 8))}

    def fields(self) -> dict[str, Any]:
        """For any call: it is given those that it knows."""
        return {
            "namespace": self.text("/", "/", "other"),
            "name": self.text("q", "dead", "x", "new", "other"),
            "queue": self.text("q", "dead"),
            "id": self.text("0", "1", "5", "9"),
            "ids": [self.text("0", "1", "5") for _ in range(3)],
            "limit": self.number(0, 5),
            "kind": self.text("direct", "topic", "headers", "x-consistent-hash", "x-delayed-message"),
            "arguments": self.table(),
            "source": self.text("x", "amq.headers"),
            "target": self.text("q", "dead", "x"),
            "target_kind": self.text("queue", "exchange"),
            "exchange": self.text("", "x", "amq.headers"),
            "to_queue": self.text("q", "dead"),
            "to_exchange": self.text("", "x"),
            "as_published": self.chance.random() < 0.2,
            "key": self.text("q", "dead"),
            "new_key": self.text("q", "dead"),
            "header": self.text("a=1"),
            "contains": self.text("l"),
            "reason": self.text("rejected"),
            "died_in": self.text("q"),
            "body": self.text("other"),
            "body_base64": self.text("aGk="),
            "set_headers": self.table(),
            "drop_headers": [self.text("a")],
            "fresh": True,
            "pattern": self.text("^q", "new"),
            "definition": {"max-length": self.number(-1, 100)}
            if self.chance.random() < 0.6
            else self.table(),
            "apply_to": self.text("queues", "all"),
            "messages": [self.message() for _ in range(self.chance.randint(0, 3))],
            "match": self.text("*", "q*"),
            "dry_run": self.chance.random() < 0.3,
            "unacked": self.chance.random() < 0.3,
            "max_body_bytes": self.number(-1, 10),
        }

    def definitions(self) -> dict[str, Any]:
        sections = ["vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings", "odd"]
        return {
            name: [self.entry() for _ in range(3)]
            if self.chance.random() < 0.9
            else self.chance.choice(ODD_VALUES)
            for name in self.chance.sample(sections, 3)
        }


async def names_of(call: Call) -> list[str]:
    """The fields that a call knows: it says so of all others."""
    found = []
    for name in [*Guess(0).fields(), "definitions"]:
        reply = await call.run({name: "no value"}, json.dumps({name: {"no": "value"}}).encode())
        if not isinstance(reply.body, bytes) or b"unknown field" not in reply.body:
            found.append(name)
    return found


async def answer(call: Call, asked: dict[str, Any]) -> int:
    if call.method == "POST":
        reply = await call.run({}, json.dumps(asked).encode())
    else:
        query = {name: str(value).encode(errors="replace").decode() for name, value in asked.items()}
        reply = await call.run(query, b"")
    if not isinstance(reply.body, bytes):
        async for _ in reply.body:
            pass
    return reply.status


def facts(broker: Broker) -> dict[str, object]:
    """Of things that outlive a restart."""
    spaces = broker.queues.book.namespaces.values()
    return definitions.written("", spaces, [], []) | {
        "ready": {
            (one.name, queue.name): queue.ready
            for one in spaces
            for queue in one.queues.values()
            if queue.spec.outlives_restart
            and not queue.may_expire
            and not queue.is_limited
            and one.name != "\0"
        }
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_any_call_is_answered_or_refused_in_words(tmp_path: Path, seed: int):
    async def play() -> collections.Counter[str]:
        small = LogOptions(file_bytes=1 << 20, reserve_bytes=0)
        broker = await Broker.open(BrokerOptions(folder=str(tmp_path), log=small))
        queues, guess = broker.queues, Guess(seed)
        queues.header_readers["amqp"] = properties.headers
        calls = queue_calls(broker, queue_spec, 1 << 20)
        known = {call: await names_of(call) for call in calls}
        done: collections.Counter[str] = collections.Counter()
        for _ in range(ASKS):
            namespace = queues.topology.namespace("/")
            if "x" not in namespace.exchanges:
                await queues.topology.declare_exchange(namespace, ExchangeSpec("x", "topic"))
            for name in ("q", "dead"):
                if name not in namespace.queues:
                    await queues.topology.declare_queue(namespace, queue_spec("/", name, True, False, {}))
                    await queues.topology.bind(namespace, "x", Target("queue", name), "#", {})
            call = guess.chance.choice(calls)
            fields = {**guess.fields(), "definitions": guess.definitions()}
            asked = {
                name: fields[name] for name in known[call] if guess.chance.random() < 0.8 or name == "name"
            }
            for name in guess.chance.sample(("to_queue", "to_exchange", "as_published"), 2):
                asked.pop(name, None)
            status = await answer(call, asked)
            assert status < 500, (call.path, asked)
            done[f"{call.method} {call.path}"] += status == 200
        async with asyncio.timeout(10):
            while len(queues.delays):  # none is due later than in a few milliseconds
                await asyncio.sleep(0.01)
        before = facts(broker)
        await broker.close()
        again = await Broker.open(BrokerOptions(folder=str(tmp_path), log=small))
        assert facts(again) == before, "what was made is there after a restart"
        await again.close()
        return done

    done = asyncio.run(play())
    missed = {name for name, count in done.items() if not count}
    seldom = {"DELETE /admin/delays", "GET /admin/message", "POST /admin/bindings/delete"}  # what is there
    assert missed <= seldom, "these were never asked anything that makes sense"
