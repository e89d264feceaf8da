"""The routes every broker has: alive, ready, and its meters."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.model.meters import Meters
from mainstem.observe import metrics
from mainstem.observe.http import Request, Response, Route


def health_routes(
    meters: Meters, why_not_ready: Callable[[], str | None], refresh: Callable[[], None] | None = None
) -> list[Route]:
    """`why_not_ready` says None once the broker serves; `refresh` brings slow meters up to date."""

    async def livez(_: Request) -> Response:
        return Response(200, b"ok\n")

    async def readyz(_: Request) -> Response:
        why = why_not_ready()
        return Response(200, b"ok\n") if why is None else Response(503, f"{why}\n".encode())

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
