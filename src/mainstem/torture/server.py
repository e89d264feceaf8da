"""The broker under torture: a process that is killed and started again on the same ports."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import randrange  # noqa: TID251 - any port that is free will do

import mainstem
from mainstem.model.errors import MainstemError

START_TIMEOUT_S = 60.0
POLL_S = 0.002
LOWEST_PORT, HIGHEST_PORT = 15_000, 32_000
TAIL_CHARS = 3000
PLAIN_PROGRAM = "from mainstem.cli.main import main; main()"
PROGRAM = f"from mainstem.torture import hooks; hooks.hurry(); {PLAIN_PROGRAM}"
# As PROGRAM, but nothing is ever synced: what a power cut does to it shows that the check can see.
UNSYNCED_PROGRAM = f"from mainstem.torture import hooks; hooks.stop_syncing(); {PROGRAM}"

# Small files and frequent snapshots, so that rolls, merges and snapshots happen all the time.
SETTINGS: Mapping[str, object] = {
    "journal.file_bytes": "1 MiB",
    "journal.reserve_bytes": "64 KiB",
    "snapshot.journal_bytes": "1 MiB",
    "snapshot.interval_ms": 1000,
    "merge.delay_ms": 0,
    "merge.level0_files": 3,
    "groups.initial_rebalance_delay_ms": 0,
    "server.drain_timeout_ms": 500,
}


class Server:
    """`before` is put in front of the command, for example strace; `program` is what Python runs."""

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, object] | None = None,
        *,
        program: str = PROGRAM,
        before: Sequence[str] = (),
    ) -> None:
        self.data = data
        self.settings = {**SETTINGS, **(settings or {})}
        self.program = program
        self.before = tuple(before)
        self.starts = 0
        self._listen = {name: f"127.0.0.1:{_free_port()}" for name in ("kafka", "amqp", "http")}
        atexit.register(self.kill_all)  # nothing stays behind when the run itself is cut short
        self._folder = tempfile.TemporaryDirectory(prefix="mainstem-torture-")
        self._ready = Path(self._folder.name) / "ready.json"
        self.log = Path(self._folder.name) / "log.txt"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def kafka(self) -> str:
        return self._listen["kafka"]

    @property
    def amqp(self) -> str:
        return self._listen["amqp"]

    @property
    def http(self) -> str:
        return self._listen["http"]

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns once it serves, on the ports of the first time."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        self._ready.unlink(missing_ok=True)
        flags = ["--data", str(self.data), "--ready-file", str(self._ready)]
        for name, where in self._listen.items():
            flags += ["--listen", f"{name}={where}"]
        for key, value in self.settings.items():
            flags += ["--set", f"{key}={value}"]
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.before, sys.executable, "-c", self.program, "serve", *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder.name,
                env=_environment(),
                start_new_session=True,  # so that all of it can be killed, and a Ctrl-C is for us alone
            )

    def wait_ready(self) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while not self._ready.exists():
            if self.poll() is not None:
                raise MainstemError(f"the broker ended while starting:\n{self.log_tail()}")
            if time.monotonic() > until:
                raise MainstemError(f"the broker was not ready in {START_TIMEOUT_S} s:\n{self.log_tail()}")
            time.sleep(POLL_S)
        self._listen = json.loads(self._ready.read_text())["listen"]

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return None if self._process is None else self._process.poll()

    def wait(self, timeout_s: float) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """kill -9, the broker alone: what it started has to notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_all(self) -> None:
        """kill -9, the broker and all that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # all of them are gone
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> int:
        """As SIGTERM does; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self.wait(START_TIMEOUT_S)

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-TAIL_CHARS:]


def _free_port() -> int:
    """Not one that the system gives to connections: while the broker is away nobody else gets it."""
    while True:
        port = randrange(LOWEST_PORT, HIGHEST_PORT)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def _environment() -> dict[str, str]:
    """Ours, without settings for some other broker, and with this very package first on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    ours = str(Path(mainstem.__file__).parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, kept.get("PYTHONPATH", "")]))
    return kept
