"""The limit of the load: takes every batch, keeps nothing, says yes (load/sink.c)."""

from __future__ import annotations

from pathlib import Path

from bench import programs
from bench.peers.server import Server, free_port, spawn, wait_ready


def start_sink(name: str, data: Path) -> Server:
    data.mkdir(parents=True, exist_ok=True)
    log, port = data / "broker.log", free_port()
    process = spawn([str(programs.program("sink")), "-P", str(port), "-d", str(data)], log)
    return Server(name, process, data, port, None, wait_ready(process, port, log, 10))
