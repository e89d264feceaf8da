"""Run a broker as a process of its own, which a test can kill."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import mainstem
from mainstem.model.errors import MainstemError

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.005
LOG_TAIL_CHARS = 4000
_PROGRAM = "from mainstem.cli.main import main; main()"


class ProcessRunner:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # Beside the data, never in it: a test may look at every file there. Kept from start to start.
        self._folder: Path | None = None

    @property
    def log(self) -> Path:
        assert self._folder is not None
        return self._folder / "log.txt"

    @property
    def _ready(self) -> Path:
        assert self._folder is not None
        return self._folder / "ready.json"

    def start(self, settings: Mapping[str, object]) -> Mapping[str, str]:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="mainstem-run-"))
        self._ready.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, "serve", *self._flags(settings)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                cwd=self._folder,
            )
        atexit.register(self._process.kill)  # nothing stays behind when the test run itself is cut short
        until = time.monotonic() + START_TIMEOUT_S
        while not self._ready.exists():
            if self._process.poll() is not None:
                raise MainstemError(f"the broker ended while starting:\n{self._log_tail()}")
            if time.monotonic() > until:
                self.kill()
                raise MainstemError(f"the broker was not ready in {START_TIMEOUT_S} s:\n{self._log_tail()}")
            time.sleep(POLL_S)
        facts = json.loads(self._ready.read_text())
        listening: Mapping[str, str] = facts["listen"]
        return listening

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise MainstemError(f"the broker did not stop in {STOP_TIMEOUT_S} s and was killed") from None
        atexit.unregister(self._process.kill)
        if code != 0:
            raise MainstemError(f"the broker ended with exit code {code}:\n{self._log_tail()}")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        atexit.unregister(self._process.kill)

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _flags(self, settings: Mapping[str, object]) -> list[str]:
        flags = ["--ready-file", str(self._ready)]
        for key, value in settings.items():
            if isinstance(value, Mapping):
                text = ",".join(f"{name}={where}" for name, where in value.items())
            elif isinstance(value, list | tuple):
                text = ",".join(map(str, value))
            else:
                text = str(value)
            flags += ["--set", f"{key}={text}"]
        return flags

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_TAIL_CHARS:]


def _environment() -> dict[str, str]:
    """Ours, without settings for some other broker, and with this very package first on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")}
    ours = str(Path(mainstem.__file__).parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, kept.get("PYTHONPATH", "")]))
    return kept
