"""`POST /admin/backup {"target": "/a/folder"}`: copy the data while it is served.

Answers JSON lines: `{"done": bytes, "total": bytes}` as it goes, and at last `{"ok": true, ...}` or
`{"error": "..."}`. Whoever may call it can make the broker write a folder, so it keeps three rules: the
folder is new or empty and apart from the data, a new one is readable by the broker's own user alone, and
there is one backup at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from mainstem.model.errors import InvalidRequest, MainstemError, StorageError
from mainstem.model.logs import get_log
from mainstem.observe.http import Request, Response, Route

LINES = "application/x-ndjson"
REPORT_S = 0.25
log = get_log(__name__)


class Copy(Protocol):
    """A moment of the log, held until it has been copied. Made on the loop, `run` in a thread."""

    def run(self, target: str, progress: Callable[[int, int], None]) -> object: ...

    def cancel(self) -> None: ...


class Backups:
    """Runs copies off the loop, one at a time; `close` cuts a running one short, which leaves no backup."""

    def __init__(self, data: Path, hold: Callable[[], Copy], why_not: Callable[[], str | None]) -> None:
        self._data = data
        self._hold = hold
        self._why_not = why_not
        self._running: asyncio.Future[None] | None = None
        self._stop = threading.Event()

    def routes(self) -> list[Route]:
        return [Route("POST", "/admin/backup", self._handle)]

    async def close(self) -> None:
        self._stop.set()
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _handle(self, request: Request) -> Response:
        why = self._why_not()
        if why is not None:
            return _refusal(403, why)
        if self._running is not None and not self._running.done():
            return _refusal(409, "a backup is being taken already")
        try:
            target = self._target(request.body)
        except InvalidRequest as error:
            return _refusal(400, str(error))
        return Response(200, self._start(target), LINES)

    def _target(self, body: bytes) -> Path:
        try:
            given = json.loads(body)["target"]
        except (ValueError, KeyError, TypeError):
            raise InvalidRequest('the body must be {"target": "/a/folder"}') from None
        if not isinstance(given, str) or not os.path.isabs(given) or "\0" in given:
            raise InvalidRequest("target must be an absolute path")
        target, data = Path(os.path.realpath(given)), Path(os.path.realpath(self._data))
        if target == data or data in target.parents or target in data.parents:
            raise InvalidRequest(f"{target} is not apart from the data folder {data}")
        try:
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise InvalidRequest(f"{target} is not an empty folder")
            target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            target.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise InvalidRequest(f"{target} cannot be made: {error.strerror}") from None
        return target

    def _start(self, target: Path) -> AsyncIterator[bytes]:
        """Begin at once; what was begun is finished even if the caller hangs up."""
        loop = asyncio.get_running_loop()
        news = _News(loop)
        copy = self._hold()

        def progress(done: int, total: int) -> None:
            if self._stop.is_set():
                raise StorageError("the backup was cut short: the broker stops")
            news.latest = (done, total)

        def work() -> None:
            try:
                copy.run(str(target), progress)
                size = news.latest[1]
                log.event("backup taken", target=str(target), bytes=size)
                news.end({"ok": True, "target": str(target), "bytes": size})
            except (MainstemError, OSError) as error:
                log.warning("backup failed", target=str(target), why=str(error))
                news.end({"error": str(error)})
            except Exception as error:
                log.error("backup failed", target=str(target), error=error)
                news.end({"error": f"{type(error).__name__}: {error}"})

        self._running = loop.run_in_executor(None, work)
        return news.lines()


class _News:
    """From the thread that copies to whoever asked for the copy."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._end: asyncio.Future[dict[str, object]] = loop.create_future()
        self.latest = (0, 0)  # done, total

    def end(self, fact: dict[str, object]) -> None:
        self._loop.call_soon_threadsafe(self._end.set_result, fact)

    async def lines(self) -> AsyncIterator[bytes]:
        shown = (0, 0)
        while not (await asyncio.wait([self._end], timeout=REPORT_S))[0]:
            if self.latest != shown:
                shown = self.latest
                yield _line({"done": shown[0], "total": shown[1]})
        yield _line(self._end.result())


def _line(fact: dict[str, object]) -> bytes:
    return json.dumps(fact).encode() + b"\n"


def _refusal(status: int, why: str) -> Response:
    return Response(status, _line({"error": why}), LINES)
