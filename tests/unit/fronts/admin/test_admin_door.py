"""What is asked and answered over the door for queues, without a broker behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from mainstem.fronts.admin.door import Ask, AskNamespace, Call, Rows, asked, call, status_of
from mainstem.model import errors as e
from mainstem.wire.amqp.errors import AmqpError


class AskMany(AskNamespace, frozen=True, kw_only=True):
    limit: int = 3
    loud: bool = False


def answer(one: Call, query: dict[str, str] | None = None, body: bytes = b"") -> tuple[int, bytes, str]:
    async def run() -> tuple[int, bytes, str]:
        reply = await one.run(query or {}, body)
        if isinstance(reply.body, bytes):
            return reply.status, reply.body, reply.content_type
        return reply.status, b"".join([part async for part in reply.body]), reply.content_type

    return asyncio.run(run())


def test_a_query_gives_numbers_and_flags_and_a_body_is_taken_at_its_word():
    assert asked(AskMany, "GET", {"limit": "7", "loud": "true"}, b"") == AskMany(limit=7, loud=True)
    assert asked(AskMany, "POST", {}, b'{"limit": 7}') == AskMany(limit=7)
    assert asked(AskMany, "POST", {}, b"") == AskMany()
    with pytest.raises(e.InvalidRequest, match="Expected `int`"):
        asked(AskMany, "POST", {}, b'{"limit": "7"}')


@pytest.mark.parametrize(
    ("method", "query", "body", "why"),
    [
        ("GET", {"limt": "7"}, b"", "limt"),
        ("GET", {"limit": "many"}, b"", "limit"),
        ("POST", {}, b"{", "truncated"),
        ("POST", {}, b"[1]", "Expected `object`"),
        ("POST", {}, b"\xff", "JSON is malformed"),
        ("POST", {}, b"[" * 100_000, "Expected `object`"),
    ],
)
def test_what_makes_no_sense_is_said_in_words(method: str, query: dict[str, str], body: bytes, why: str):
    with pytest.raises(e.InvalidRequest, match=why):
        asked(AskMany, method, query, body)


def test_one_result_is_an_object_and_many_are_lines():
    async def one(ask: AskMany) -> object:
        return {"limit": ask.limit}

    async def many(ask: AskMany) -> object:
        return Rows({"n": n} for n in range(ask.limit))

    assert answer(call("GET", "/one", AskMany, one)) == (200, b'{"limit":3}\n', "application/json")
    status, lines, kind = answer(call("GET", "/many", AskMany, many), {"limit": "500"})
    assert (status, kind) == (200, "application/x-ndjson")
    assert [json.loads(line)["n"] for line in lines.splitlines()] == list(range(500))


def test_an_error_before_the_first_row_has_its_status_and_a_later_one_is_the_last_line():
    def failing_after(count: int) -> Call:
        async def handler(_: Ask) -> Rows:
            async def rows() -> AsyncIterator[object]:
                for n in range(count):
                    yield {"n": n}
                raise e.UnknownQueue("orders")

            return Rows(rows())

        return call("GET", "/failing", Ask, handler)

    said = {"error": "there is no queue 'orders'", "kind": "UnknownQueue", "name": "orders"}
    status, body, _ = answer(failing_after(0))
    assert (status, json.loads(body)) == (404, said)
    status, body, _ = answer(failing_after(2))
    assert status == 200
    assert [json.loads(line) for line in body.splitlines()] == [{"n": 0}, {"n": 1}, said]


def test_rows_that_are_not_there_yet_leave_no_trace():
    async def handler(_: Ask) -> Rows:
        async def rows() -> AsyncIterator[object]:
            yield None
            yield {"n": 1}
            yield None

        return Rows(rows())

    assert answer(call("GET", "/x", Ask, handler))[1].split() == [b'{"n":1}']


def every_error(cls: type[e.MainstemError]) -> list[type[e.MainstemError]]:
    return [cls, *(below for child in cls.__subclasses__() for below in every_error(child))]


@pytest.mark.parametrize("cls", every_error(e.QueueError) + every_error(e.InvalidRequest) + [AmqpError])
def test_what_a_caller_did_wrong_is_not_told_as_a_fault_of_the_broker(cls: type[e.MainstemError]):
    error = cls.__new__(cls)
    assert 400 <= status_of(error) < 500


def test_a_fault_of_the_broker_is_told_as_such():
    assert status_of(e.MainstemError("x")) == 500
    assert status_of(e.DiskFull("x")) == 507
