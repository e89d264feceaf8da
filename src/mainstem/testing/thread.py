"""Run a broker in a thread of this process, with an event loop of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from mainstem.app import App
from mainstem.config import load
from mainstem.model.errors import InvalidRequest
from mainstem.testing.settings import ORIGIN


class ThreadRunner:
    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ended: Future[None] = Future()

    def start(self, settings: Mapping[str, object]) -> Mapping[str, str]:
        started: Future[Mapping[str, str]] = Future()
        self._ended = Future()
        self._thread = threading.Thread(
            target=self._run, args=(dict(settings), started), name="mainstem-broker", daemon=True
        )
        self._thread.start()
        try:
            return started.result()
        except BaseException:
            self._thread.join()
            raise

    def stop(self) -> None:
        assert self._thread is not None
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def kill(self) -> None:
        raise InvalidRequest("a thread cannot be killed: use Broker(process=True)")

    def close(self) -> None:
        """It leaves nothing."""

    def _run(self, settings: dict[str, object], started: Future[Mapping[str, str]]) -> None:
        # A broker shortens the interval for its process; here the process is somebody's test run.
        interval_s = sys.getswitchinterval()
        try:
            asyncio.run(self._serve(settings, started))
        except BaseException as error:
            (self._ended if started.done() else started).set_exception(error)
        else:
            self._ended.set_result(None)
        finally:
            sys.setswitchinterval(interval_s)

    async def _serve(self, settings: dict[str, object], started: Future[Mapping[str, str]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        config = load(settings, {}, flags_are=ORIGIN)
        sys.setswitchinterval(config.journal.switch_interval_us / 1e6)
        app = App(config)
        await app.start()
        try:
            started.set_result({name: str(where) for name, where in app.listening.items()})
            await self._stop.wait()
        finally:
            await app.stop()
