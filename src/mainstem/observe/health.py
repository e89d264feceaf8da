"""The routes every broker has: alive, ready, and its meters."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.model.meters import Meters
from mainstem.observe import metrics
from mainstem.observe.http import Request, Response, Route


def health_routes(
    meters: Meters,
    why_not_ready: Callable[[], str | None],
    refresh: Callable[[], None] | None = None,
    but: Callable[[], str | None] = lambda: None,
) -> list[Route]:
    """`why_not_ready` says None once the broker serves; `refresh` brings slow meters up to date; `but` says
    what does not go although it serves.
    """

    async def livez(_: Request) -> Response:
        return Response(200, b"ok\n")

    async def readyz(_: Request) -> Response:
        why = why_not_ready()
        if why is not None:
            return Response(503, f"{why}\n".encode())
        missing = but()
        return Response(200, b"ok\n" if missing is None else f"ok, but {missing}\n".encode())

    async def metricsz(_: Request) -> Response:
        if refresh is not None:
            refresh()
        return Response(200, metrics.render(meters).encode(), metrics.CONTENT_TYPE)

    return [
        # Load balancers and supervisors have no token, and learn nothing from "ok".
        Route("GET", "/livez", livez, open=True),
        Route("GET", "/readyz", readyz, open=True),
        Route("GET", "/metrics", metricsz),
    ]
