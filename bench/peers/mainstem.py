"""Mainstem, started as a user starts it: `mainstem serve`, its defaults, fdatasync before every answer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bench import amqp
from bench.peers.server import Server, free_port, make_certificate, spawn, wait_ready

SERVE = (sys.executable, "-c", "from mainstem.cli.main import main; main()", "serve")


def start_mainstem(
    name: str,
    data: Path,
    *,
    tls: bool = False,
    queues: bool = False,
    extra: Mapping[str, str] | None = None,
    ready_timeout_s: float = 120,
) -> Server:
    """`extra` are settings as variables: {"MAINSTEM_MERGE__ENABLED": "false"}. `queues`: AMQP too."""
    data.mkdir(parents=True, exist_ok=True)
    log, port, http_port = data / "broker.log", free_port(), free_port()
    command = [*SERVE, "--data", str(data / "data"), "--ready-file", str(data / "ready.json")]
    command += ["--listen", f"kafka=127.0.0.1:{port}", "--listen", f"http=127.0.0.1:{http_port}"]
    amqp_port = free_port() if queues else None
    if amqp_port:
        command += ["--listen", f"amqp=127.0.0.1:{amqp_port}"]
    tls_port, ca = None, None
    if tls:
        tls_port, (ca, key) = free_port(), make_certificate(data)
        command += [
            "--listen",
            f"kafka+tls=127.0.0.1:{tls_port}",
            "--tls-cert",
            str(ca),
            "--tls-key",
            str(key),
        ]
    process = spawn(command, log, extra)
    ready_s = wait_ready(process, port, log, ready_timeout_s)
    if amqp_port:  # its listeners open one after the other
        ready_s += wait_ready(process, amqp_port, log, ready_timeout_s, amqp.wait_until_ready)
    return Server(name, process, data, port, http_port, ready_s, tls_port, ca, amqp_port)
