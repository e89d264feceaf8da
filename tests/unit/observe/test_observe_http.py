from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mainstem.model.meters import Meters
from mainstem.observe import Access, HttpServer, Request, Response, Route, health_routes, serve_http
from mainstem.observe import http as http_module


async def echo(request: Request) -> Response:
    facts = {"query": dict(request.query), "body": request.body.decode()}
    return Response(200, json.dumps(facts).encode(), "application/json")


async def numbers(_: Request) -> Response:
    async def count() -> AsyncIterator[bytes]:
        for n in range(3):
            yield f"{n}\n".encode()

    return Response(200, count())


async def broken(_: Request) -> Response:
    raise RuntimeError("a bug")


ROUTES = [
    Route("POST", "/admin/echo", echo),
    Route("POST", "/admin/large", echo, max_body_bytes=3 << 20),
    Route("GET", "/numbers", numbers),
    Route("GET", "/broken", broken),
    *health_routes(Meters(), lambda: None),
]


def run(test: Callable[[HttpServer], Awaitable[None]], access: Access | None = None) -> None:
    async def main() -> None:
        server = await serve_http("127.0.0.1", 0, ROUTES, access=access)
        try:
            await test(server)
        finally:
            await server.close()

    asyncio.run(main())


async def talk(server: HttpServer, data: bytes) -> bytes:
    """Everything that comes back for these bytes, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return answer


def call(method: str, path: str, *headers: str, body: bytes = b"", host: str = "localhost:1") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(method: str, path: str, *headers: str, access: Access | None = None, **kwargs) -> tuple[int, bytes]:
    got: list[bytes] = []

    async def test(server: HttpServer) -> None:
        got.append(await talk(server, call(method, path, "Connection: close", *headers, **kwargs)))

    run(test, access)
    head, _, body = got[0].partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_probes_say_ok():
    assert ask("GET", "/livez") == (200, b"ok\n")
    assert ask("GET", "/readyz") == (200, b"ok\n")


def test_readyz_says_why_not():
    async def main() -> bytes:
        server = await serve_http("127.0.0.1", 0, health_routes(Meters(), lambda: "replaying the journal"))
        try:
            return await talk(server, call("GET", "/readyz", "Connection: close"))
        finally:
            await server.close()

    answer = asyncio.run(main())
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b"replaying the journal\n")


def test_metrics_are_refreshed_and_rendered():
    meters = Meters()
    counter = meters.counter("asked", "Asked").at()

    def refresh() -> None:
        counter.value += 1

    route = next(r for r in health_routes(meters, lambda: None, refresh) if r.path == "/metrics")
    request = Request("GET", "/metrics", {}, {}, b"")
    asyncio.run(route.handler(request))  # type: ignore[arg-type]
    response = asyncio.run(route.handler(request))  # type: ignore[arg-type]
    assert response.content_type.startswith("text/plain; version=0.0.4")
    assert b"asked_total 2" in response.body  # type: ignore[operator]


def test_unknown_paths_and_methods_are_told_apart():
    assert ask("GET", "/nope")[0] == 404
    assert ask("DELETE", "/livez")[0] == 405


def test_a_body_and_a_query_reach_the_handler():
    status, body = ask("POST", "/admin/echo?to=a&to=b", body=b"hello")
    assert (status, json.loads(body)) == (200, {"query": {"to": "b"}, "body": "hello"})


@pytest.mark.parametrize(
    ("path", "header", "size", "status"),
    [
        ("/admin/echo", "Authorization: Bearer secret", 2 << 20, b"413"),
        ("/admin/large", "Authorization: Bearer secret", 2 << 20, b"200"),
        ("/admin/large", "Authorization: Bearer secret", 4 << 20, b"413"),
        ("/admin/large", "Authorization: Bearer wrong", 2 << 20, b"413"),
    ],
)
def test_a_route_may_take_larger_bodies_from_those_who_may_call_it(path, header, size, status):
    async def test(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(call("POST", path, header, body=b"x" * size))
        assert (await reader.readline()).split()[1] == status
        writer.close()

    run(test, Access(token="secret"))


def test_an_iterator_is_sent_in_chunks():
    status, body = ask("GET", "/numbers")
    assert (status, body) == (200, b"2\r\n0\n\r\n2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n")


def test_head_answers_without_a_body():
    assert ask("HEAD", "/livez") == (200, b"")


def test_a_handler_that_fails_answers_500_and_the_server_goes_on(caplog):
    async def test(server: HttpServer) -> None:
        both = call("GET", "/broken") + call("GET", "/livez", "Connection: close")
        answer = await talk(server, both)
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert answer.endswith(b"ok\n")

    run(test)
    assert "http request failed" in caplog.text


def test_a_connection_serves_many_requests_even_pipelined():
    async def test(server: HttpServer) -> None:
        answer = await talk(server, call("GET", "/livez") * 3 + call("GET", "/readyz", "Connection: close"))
        assert answer.count(b"HTTP/1.1 200 ") == 4

    run(test)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 not http\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\nX: " + b"a" * http_module.MAX_HEADER_BYTES * 2, b"431"),
        (
            b"POST /admin/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 2**21,
            b"413",
        ),
    ],
)
def test_what_breaks_the_rules_gets_an_answer_and_a_closed_connection(data, status):
    async def test(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(data)
        assert (await reader.readline()).split()[1] == status
        writer.close()
        assert (await talk(server, call("GET", "/livez", "Connection: close"))).endswith(b"ok\n")

    run(test)


def test_a_peer_that_leaves_in_the_middle_is_forgotten():
    async def test(server: HttpServer) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /admin/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
        writer.close()
        await writer.wait_closed()
        assert (await talk(server, call("GET", "/livez", "Connection: close"))).endswith(b"ok\n")

    run(test)


def test_a_silent_connection_is_closed(monkeypatch):
    monkeypatch.setattr(http_module, "IDLE_TIMEOUT_S", 0.01)

    async def test(server: HttpServer) -> None:
        assert await talk(server, b"GET /liv") == b""

    run(test)


def test_beyond_the_limit_a_connection_is_closed_at_once(monkeypatch, caplog):
    monkeypatch.setattr(http_module, "MAX_CONNECTIONS", 0)

    async def test(server: HttpServer) -> None:
        assert await talk(server, b"") == b""

    run(test)
    assert "http connection refused" in caplog.text


def test_with_a_token_only_probes_are_open():
    access = Access(token="s3cret")
    assert ask("GET", "/livez", access=access)[0] == 200
    assert ask("GET", "/metrics", access=access)[0] == 401
    assert ask("GET", "/metrics", "Authorization: Bearer wrong", access=access)[0] == 401
    assert ask("GET", "/metrics", "Authorization: Basic s3cret", access=access)[0] == 401
    assert ask("GET", "/metrics", "Authorization: Bearer s3cret", access=access)[0] == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:9640", None, 200),
        ("[::1]:9640", None, 200),
        ("localhost:9640", "http://localhost:9640", 200),
        ("localhost:9640", "https://evil.example", 403),
        ("evil.example:9640", None, 403),
        ("[", None, 403),
    ],
)
def test_a_page_of_another_site_may_not_call(host, origin, status):
    headers = [f"Origin: {origin}"] if origin else []
    assert ask("POST", "/admin/echo", *headers, body=b"x", host=host)[0] == status


def test_beyond_loopback_any_host_name_is_fine():
    assert ask("GET", "/metrics", host="broker.example", access=Access(token=None, any_host=True))[0] == 200


def test_closing_ends_open_connections():
    async def test(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(call("GET", "/livez"))
        assert await reader.readline()
        await server.close()
        await reader.read()
        writer.close()

    run(test)
