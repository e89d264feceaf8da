"""Calls of other rooms as routes of the http listener. Who may use them is decided here, for all alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from mainstem.observe.http import Handler, Request, Response, Route


class Reply(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def body(self) -> bytes | AsyncIterator[bytes]: ...

    @property
    def content_type(self) -> str: ...


class Call(Protocol):
    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def max_body_bytes(self) -> int: ...

    @property
    def run(self) -> Callable[[Mapping[str, str], bytes], Awaitable[Reply]]:
        """Given the query and the body."""


def call_routes(calls: Iterable[Call], why_not: Callable[[], str | None]) -> list[Route]:
    """`why_not` says why nobody may call just now, or None."""
    return [
        Route(one.method, one.path, _handler(one, why_not), max_body_bytes=one.max_body_bytes)
        for one in calls
    ]


def _handler(call: Call, why_not: Callable[[], str | None]) -> Handler:
    async def handle(request: Request) -> Response:
        why = why_not()
        if why is not None:
            return Response(403, json.dumps({"error": why}).encode() + b"\n", "application/json")
        reply = await call.run(request.query, request.body)
        return Response(reply.status, reply.body, reply.content_type)

    return handle
