"""What the broker tells the people who run it: metrics, logs, probes."""

from mainstem.observe.health import health_routes
from mainstem.observe.http import Access, HttpServer, Request, Response, Route, serve_http
from mainstem.observe.logging import start_logging
from mainstem.observe.metrics import render
from mainstem.observe.process import add_process_meters

__all__ = [
    "Access",
    "HttpServer",
    "Request",
    "Response",
    "Route",
    "add_process_meters",
    "health_routes",
    "render",
    "serve_http",
    "start_logging",
]
