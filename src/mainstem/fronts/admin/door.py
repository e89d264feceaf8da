"""Calls in JSON: what is asked is a typed struct, what is answered one object or a line for each of many.

A GET or DELETE asks by its query, a POST by its body. Names are never part of a path: they may hold anything.
This room knows no HTTP; the listener (observe/http.py) is given `Call`s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from mainstem.model import errors as e
from mainstem.model.logs import get_log
from mainstem.wire.amqp.errors import AmqpError

events = get_log(__name__)

MAX_BODY_BYTES = 1 << 20
JSON = "application/json"
LINES = "application/x-ndjson"
# Rows that are made before others get their turn, and sent together.
ROWS_AT_ONCE = 200
BYTES_AT_ONCE = 32 << 10
# Of a client that waits for rows which take their time.
SILENCE_S = 1.0

STATUS: dict[type[e.MainstemError], int] = {
    e.MainstemError: 500,
    e.InvalidRequest: 400,
    e.PolicyViolation: 400,
    e.BatchTooLarge: 413,
    e.QueueError: 409,
    e.UnknownNamespace: 404,
    e.UnknownExchange: 404,
    e.UnknownQueue: 404,
    e.QueueLocked: 409,
    e.QueueInUse: 409,
    e.QueueNotEmpty: 409,
    e.ExchangeInUse: 409,
    e.NotForClients: 403,
    e.Inequivalent: 409,
    e.ResourceNotFound: 404,
    e.StorageError: 503,
    e.DiskFull: 507,
    e.NotSupported: 501,
    AmqpError: 400,
}
_UNKNOWN: dict[type[e.MainstemError], str] = {
    e.UnknownExchange: "there is no exchange {!r}",
    e.UnknownQueue: "there is no queue {!r}",
    e.QueueLocked: "queue {!r} belongs to a connection alone",
}


class Ask(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, frozen=True):
    """What a call is asked."""


class Unlogged(Ask, frozen=True, kw_only=True):
    """Asked too often, or too little, to be noted."""


class AskNamespace(Ask, frozen=True, kw_only=True):
    namespace: str = "/"


A = TypeVar("A", bound=Ask)


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes | AsyncIterator[bytes]
    content_type: str = JSON


@dataclass(frozen=True)
class Rows:
    """Many results of one shape, each a line. None among them: there is nothing to tell yet."""

    rows: Iterable[object] | AsyncIterator[object]


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    run: Callable[[Mapping[str, str], bytes], Awaitable[Reply]]
    max_body_bytes: int


def call(
    method: str,
    path: str,
    asks: type[A],
    handler: Callable[[A], Awaitable[object]],
    max_body_bytes: int = MAX_BODY_BYTES,
) -> Call:
    async def run(query: Mapping[str, str], body: bytes) -> Reply:
        try:
            ask = asked(asks, method, query, body)
            answer = await handler(ask)
            if method != "GET" and not isinstance(ask, Unlogged):
                events.event("admin call", method=method, path=path, **_about(ask))
            if isinstance(answer, Rows):
                return Reply(200, await _begun(_lines(answer.rows)), LINES)
            return Reply(200, _json(answer))
        except e.MainstemError as error:
            return refusal(error)

    return Call(method, path, run, max_body_bytes)


def _about(ask: Ask) -> dict[str, object]:
    """The names in it; never what a message holds."""
    names = ("namespace", "name", "queue", "source", "target", "id", "dry_run")
    found = ((name, getattr(ask, name, None)) for name in names)
    return {name: value for name, value in found if value is not None}


def asked(asks: type[A], method: str, query: Mapping[str, str], body: bytes) -> A:
    """InvalidRequest says what is wrong, and where."""
    try:
        if method == "POST":
            return msgspec.json.decode(body or b"{}", type=asks)
        return msgspec.convert(dict(query), type=asks, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise e.InvalidRequest(str(error)) from None


def refusal(error: e.MainstemError) -> Reply:
    return Reply(status_of(error), _json(explained(error)))


def explained(error: e.MainstemError) -> dict[str, object]:
    """For programs the kind of error too, and the name of what is not there."""
    text = error.text if isinstance(error, AmqpError) else str(error)
    fact: dict[str, object] = {"error": text, "kind": type(error).__name__}
    for cls, words in _UNKNOWN.items():
        if isinstance(error, cls):
            fact |= {"error": words.format(text), "name": text}
    return fact


def status_of(error: e.MainstemError) -> int:
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


async def _begun(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """With the first of them made, so that what is wrong with the request is answered as such."""
    first = await anext(lines, b"")

    async def all_of_them() -> AsyncIterator[bytes]:
        yield first
        async for line in lines:
            yield line

    return all_of_them()


async def _lines(rows: Iterable[object] | AsyncIterator[object]) -> AsyncIterator[bytes]:
    encode = msgspec.json.Encoder(enc_hook=str).encode
    if isinstance(rows, AsyncIterator):
        async for lines in _as_they_come(rows, encode):
            yield lines
        return
    out = bytearray()
    for count, row in enumerate(rows, 1):
        out += encode(row) + b"\n"
        if count % ROWS_AT_ONCE == 0:
            yield bytes(out)
            out.clear()
            await asyncio.sleep(0)
    yield bytes(out)


async def _as_they_come(
    rows: AsyncIterator[object], encode: Callable[[object], bytes]
) -> AsyncIterator[bytes]:
    """Many together, but somebody who waits hears something: an empty line, where there is no row."""
    now_s = asyncio.get_running_loop().time
    out, told_s, begun = bytearray(), now_s(), False
    try:
        async for row in rows:
            if row is not None:
                out += encode(row) + b"\n"
            if len(out) >= BYTES_AT_ONCE or now_s() - told_s >= SILENCE_S:
                yield bytes(out) or b"\n"
                begun, told_s = True, now_s()
                out.clear()
    except e.MainstemError as error:
        if not begun and not out:
            raise
        out += encode(explained(error)) + b"\n"  # in place of the rows that are missing
    yield bytes(out)


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str) + b"\n"
