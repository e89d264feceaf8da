"""A small HTTP/1.1 listener for probes, metrics and admin calls.

h11 keeps the protocol's state; this file moves bytes, finds the route and keeps limits. Who may call:
anybody who reaches the port, unless a token is set. A page in somebody's browser may not: a foreign
Origin, or a foreign Host on a loopback listener, is refused. Routes marked `open` skip both checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import h11

from mainstem.model.logs import get_log

MAX_HEADER_BYTES = 16 * 1024
MAX_BODY_BYTES = 1024 * 1024
MAX_CONNECTIONS = 256
IDLE_TIMEOUT_S = 60.0
READ_BYTES = 64 * 1024
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
TEXT = "text/plain; charset=utf-8"

log = get_log(__name__)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]  # the last value of each name
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""  # an iterator is sent in chunks as it comes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    handler: Handler
    open: bool = False  # answers anybody: it changes nothing and tells nothing
    max_body_bytes: int = MAX_BODY_BYTES  # of those who may call it


@dataclass(frozen=True)
class Access:
    token: str | None = None
    any_host: bool = False  # False: the Host header must name loopback


class HttpServer:
    """A running listener; `port` is the real one. `close()` ends its connections too."""

    def __init__(self, routes: list[Route], access: Access) -> None:
        self.port = 0
        self._access = access
        self._routes = {(route.method, route.path): route for route in routes}
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._accepted, host, port, ssl=tls, limit=READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            log.warning("http connection refused", why="too many", limit=MAX_CONNECTIONS)
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        try:
            while (request := await connection.next_request(self._max_body_bytes)) is not None:
                await connection.answer(request.method, await self._respond(request))
        except _Refused as refused:
            with contextlib.suppress(OSError, h11.LocalProtocolError):
                await connection.answer("", _error(refused.status))
        except (OSError, h11.LocalProtocolError):
            pass  # the peer went away or went silent: nobody is left to tell
        except Exception as error:
            log.error("http connection failed", error=error)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _route(self, request: Request) -> Route | None:
        method = "GET" if request.method == "HEAD" else request.method
        return self._routes.get((method, request.path))

    def _max_body_bytes(self, request: Request) -> int:
        """Before the body is read: a stranger gets no room for a large one."""
        route = self._route(request)
        may = not _from_a_web_page(request, self._access) and _has_token(request, self._access.token)
        return route.max_body_bytes if route is not None and may else MAX_BODY_BYTES

    async def _respond(self, request: Request) -> Response:
        route = self._route(request)
        if route is None:
            methods = sorted(known for known, path in self._routes if path == request.path)
            return _error(405, {"allow": ", ".join(methods)}) if methods else _error(404)
        if not route.open:
            if _from_a_web_page(request, self._access):
                return _error(403)
            if not _has_token(request, self._access.token):
                return _error(401, {"www-authenticate": "Bearer"})
        try:
            return await route.handler(request)
        except Exception as error:
            log.error("http request failed", method=request.method, path=request.path, error=error)
            return _error(500)


async def serve_http(
    host: str,
    port: int,
    routes: list[Route],
    *,
    access: Access | None = None,
    tls: ssl.SSLContext | None = None,
) -> HttpServer:
    """Listen and return at once; port 0 takes any free one."""
    server = HttpServer(routes, access or Access())
    await server.start(host, port, tls)
    return server


class _Refused(Exception):
    """The peer broke a rule: answer with this status and close."""

    def __init__(self, status: int) -> None:
        self.status = status


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)

    async def next_request(self, max_body_bytes: Callable[[Request], int]) -> Request | None:
        """None once the connection has served its last request."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._http.our_state is not h11.IDLE:
            return None
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        target = urlsplit(head.target.decode("latin-1"))
        request = Request(
            method=head.method.decode("ascii"),
            path=target.path,
            query={name: values[-1] for name, values in parse_qs(target.query).items()},
            headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
            body=b"",
        )
        body, most = bytearray(), max_body_bytes(request)
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > most:
                raise _Refused(413)
        return replace(request, body=bytes(body)) if isinstance(event, h11.EndOfMessage) else None

    async def answer(self, method: str, response: Response) -> None:
        headers = {"content-type": response.content_type, **response.headers}
        if isinstance(response.body, bytes):
            headers["content-length"] = str(len(response.body))
        # A peer that still sends what nobody will read is cut off rather than drained.
        if self._http.their_state is not h11.DONE:
            headers["connection"] = "close"
        reason = HTTPStatus(response.status).phrase.encode()
        await self._send(
            h11.Response(status_code=response.status, headers=list(headers.items()), reason=reason)
        )
        if method != "HEAD":
            if isinstance(response.body, bytes):
                await self._send(h11.Data(data=response.body))
            else:
                async for chunk in response.body:
                    await self._send(h11.Data(data=chunk))
        await self._send(h11.EndOfMessage())

    async def _event(self) -> h11.Event | type[h11.PAUSED] | None:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise _Refused(error.error_status_hint) from error
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                self._http.receive_data(await self._reader.read(READ_BYTES))

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            async with asyncio.timeout(IDLE_TIMEOUT_S):
                await self._writer.drain()


def _error(status: int, headers: Mapping[str, str] | None = None) -> Response:
    phrase = HTTPStatus(status).phrase.lower()
    return Response(status, f"{status} {phrase}\n".encode(), headers=headers or {})


def _from_a_web_page(request: Request, access: Access) -> bool:
    host = request.headers.get("host", "")
    if not access.any_host and _host_name(host) not in LOOPBACK_NAMES:
        return True  # a foreign name that was made to resolve to this machine
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _has_token(request: Request, token: str | None) -> bool:
    if token is None:
        return True
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # compare_digest takes as long for a near miss as for a far one.
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), token.encode())
