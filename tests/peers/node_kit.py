"""Node programs beside a broker: their packages by npm, once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from java_kit import PEERS, Program

SOURCES = Path(__file__).parent / "node"
AMQPLIB = "2.0.1"
WAIT_S = 60.0


def amqplib() -> Path:
    """A folder of Node's modules with RabbitMQ's client in it."""
    folder = PEERS / f"amqplib-{AMQPLIB}"
    if not shutil.which("node"):
        raise RuntimeError("these tests need Node (node on the PATH)")
    if not folder.exists():
        if not shutil.which("npm"):
            raise RuntimeError("these tests need Node's package manager (npm on the PATH)")
        new = Path(f"{folder}.new")
        new.mkdir(parents=True, exist_ok=True)
        quiet = ("--no-audit", "--no-fund", "--no-save", "--loglevel=error")
        subprocess.run(["npm", "install", *quiet, "--prefix", str(new), f"amqplib@{AMQPLIB}"], check=True)
        new.rename(folder)
    return folder / "node_modules"


class Node:
    """Plays scenarios of one of our programs; ends what still runs when the test is over."""

    def __init__(self, modules: Path, program: str, folder: Path) -> None:
        self._command = ["node", str(SOURCES / f"{program}.js")]
        self._environment = {**os.environ, "NODE_PATH": str(modules)}
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def __call__(self, scenario: str, address: str, *given: str) -> Any:
        """What it saw."""
        done = subprocess.run(
            [*self._command, scenario, *address.split(":"), *given],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        assert done.returncode == 0, f"{scenario} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return told(done.stdout)

    def start(self, scenario: str, address: str) -> Program:
        """One that runs until its standard input ends, or the broker does."""
        log = self._folder / f"{scenario}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*self._command, scenario, *address.split(":")],
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
            )
        self._running.append(process)
        return Program(process, log)

    def let_end(self) -> None:
        """Those that run may: they are waited for."""
        for process in self._running:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(WAIT_S) == 0

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


def told(said: str) -> Any:
    return json.loads(said.splitlines()[-1])
