"""A real broker inside a test:

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.kafka})

It listens on free loopback ports, keeps its data in a temporary folder, and is ready in a few hundredths of a
second: a thread of this process with its own event loop. `Broker(process=True)` is a process of its own,
slower to start, which can be killed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol

from mainstem.config import load
from mainstem.model.errors import InvalidRequest
from mainstem.testing.settings import ORIGIN, TEST_SETTINGS

ANY_PORT = "127.0.0.1:0"


class Runner(Protocol):
    """Something that runs one broker at a time."""

    def start(self, settings: Mapping[str, object]) -> Mapping[str, str]:
        """Serve; returns once every listener accepts, with its address by name."""

    def stop(self) -> None:
        """As SIGTERM does: finish what is under way, leave everything on disk."""

    def kill(self) -> None:
        """As SIGKILL does."""

    def close(self) -> None:
        """Once it has ended: remove what was kept for another start."""


class Broker:
    """A broker for one test or many; a context manager that starts and stops it.

    `settings` are keys as in mainstem.toml, `{"topics.default_partitions": 4}`; variables of the environment
    and settings files are not looked at. `data` names a folder that is kept; without it there is a temporary
    one that goes with the broker, unless `keep_data`. `listen` adds or replaces listeners by name.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        data: str | Path | None = None,
        keep_data: bool = False,
        process: bool = False,
        listen: Mapping[str, str] | None = None,
    ) -> None:
        if listen is not None and not isinstance(listen, Mapping):
            raise InvalidRequest(
                f"listen={listen!r} must be addresses by name, such as {{'kafka': '{ANY_PORT}'}}"
            )
        self.settings = {**TEST_SETTINGS, **(settings or {})}
        self.listening: Mapping[str, str] = {
            "kafka": ANY_PORT,
            "amqp": ANY_PORT,
            "http": ANY_PORT,
            **(listen or {}),
        }
        self.is_running = False
        self._given_data = Path(data) if data is not None else None
        self._keep_data = keep_data
        self._data: Path | None = self._given_data
        self._runner = _runner(process)

    # --- where it is ---------------------------------------------------------------------------

    @property
    def kafka(self) -> str:
        """HOST:PORT, for `bootstrap.servers`."""
        return self.listening["kafka"]

    @property
    def amqp(self) -> str:
        """HOST:PORT, for RabbitMQ's clients; user and password are guest."""
        return self.listening["amqp"]

    @property
    def http(self) -> str:
        """HOST:PORT of /livez, /readyz and /metrics."""
        return self.listening["http"]

    @property
    def data(self) -> Path:
        """The data folder."""
        if self._data is None:
            raise InvalidRequest("this broker has not been started: it has no data folder")
        return self._data

    # --- its life ------------------------------------------------------------------------------

    def start(self) -> Broker:
        """Serve. A second start listens where the first did and finds the first one's data."""
        if self.is_running:
            return self
        made = self._data is None
        if self._data is None:
            self._data = Path(tempfile.mkdtemp(prefix="mainstem-test-"))
        settings = {**self.settings, "server.data": str(self._data), "server.listen": self.listening}
        try:
            load(settings, {}, flags_are=ORIGIN)  # here, so that it is said alike for threads and processes
            self.listening = self._runner.start(settings)
        except BaseException:
            if made and not self._keep_data:
                shutil.rmtree(self._data, ignore_errors=True)
                self._data = None
            self._runner.close()
            raise
        self.is_running = True
        return self

    def stop(self) -> None:
        """End it in good order; the data stays until `close`."""
        if self.is_running:
            self.is_running = False
            self._runner.stop()

    def restart(self) -> None:
        """Stop it if it still runs, and start it again: same data, same ports."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End it as `kill -9` would; `restart` brings it back."""
        if self.is_running:
            self._runner.kill()
            self.is_running = False

    def close(self) -> None:
        """Stop it, and delete its data if that was temporary."""
        try:
            self.stop()
        finally:
            self._runner.close()
            if self._data is not None and self._given_data is None and not self._keep_data:
                shutil.rmtree(self._data, ignore_errors=True)
                self._data = None

    def __enter__(self) -> Broker:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _runner(process: bool) -> Runner:
    # Imported here: the thread's runner brings the whole broker with it.
    if process:
        from mainstem.testing.process import ProcessRunner

        return ProcessRunner()
    from mainstem.testing.thread import ThreadRunner

    return ThreadRunner()
