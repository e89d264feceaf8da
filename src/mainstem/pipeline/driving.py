"""A run from its first word to its last: claimed in the book, stepped until it ends, told of all along."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

import msgspec

from mainstem.model.errors import InvalidRequest, MainstemError
from mainstem.pipeline.book import Book
from mainstem.pipeline.book_records import Level
from mainstem.pipeline.counting import added
from mainstem.pipeline.dead_watch import together
from mainstem.pipeline.failures import reason
from mainstem.pipeline.progress import QueryProgress, RunStatus, State
from mainstem.pipeline.running import Run
from mainstem.pipeline.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP_S = 0.5
SAY_S = 3.0
LISTEN_S = 5 * SAY_S


class Driver:
    """Says in the book how a run goes, and stops it when somebody asks for that."""

    def __init__(self, book: Book, status: RunStatus, screen: Screen, now_ms: Callable[[], int]) -> None:
        self._book = book
        self.status = status
        self._screen = screen
        self._now_ms = now_ms
        self._stop = threading.Event()
        self._changing = threading.Lock()  # the heartbeat shows the status too

    def claim(self) -> None:
        """Two runs on one checkpoint would write over each other.

        A run that was killed could not say so: one that is not over is listened to. It is lost when it has
        said nothing for long by the clock of this machine, as those of others may differ.
        """
        with _signals(self._stop):
            begun_ms, waited_s = self._now_ms(), 0.0
            heard = other = self._book.claim(self.status)
            while heard is not None and other is not None:
                if (other.run, other.at_ms) != (heard.run, heard.at_ms):
                    raise InvalidRequest(
                        f"{self.status.pipeline} runs already, on {other.host} (process {other.pid});"
                        f" stop it with: mainstem pipeline stop {self.status.pipeline}"
                    )
                if not waited_s:
                    self._screen.log("info", _waiting_for(other))
                if self._stop.wait(STEP_S) or self._book.stop_asked(heard, begun_ms):
                    raise InvalidRequest("stopped before it began")
                waited_s += STEP_S
                now_ms = self._now_ms()
                self.status = msgspec.structs.replace(self.status, started_ms=now_ms, at_ms=now_ms)
                other = self._book.claim(self.status, heard.run if waited_s >= LISTEN_S else "")

    def drive(self, run: Run, session: Callable[[], SparkSession]) -> None:
        """Returns when the run is over, or somebody ended it. Raises what made it fail, once that is told."""
        with _signals(self._stop), beating(self._beat):
            try:
                self._become("starting")
                run.start(session())
                self._become("running")
                self._follow(run)
                self._become("stopping" if self._stop.is_set() else "running")
                run.end()
                self._note(run, run.news())
                self._become("stopped" if self._stop.is_set() else "done")
            except BaseException as error:
                self._fail(run, error)
                if self.status.state == "failed":
                    raise
            finally:
                run.close()

    def _follow(self, run: Run) -> None:
        while run.is_going() and not self._stop.wait(STEP_S):
            self._note(run, run.step())
            if self._book.stop_asked(self.status):
                self._log("info", "somebody asked it to stop")
                self._stop.set()
            rival = self._book.taken_over(self.status)
            if rival is not None:
                raise TakenOver(
                    f"another run has begun, on {rival.host} (process {rival.pid}): this one ends"
                )
        if not self._stop.is_set():
            self._note(run, run.step())  # raises what ended it

    def _note(self, run: Run, new: list[QueryProgress]) -> None:
        for progress in new:
            self._book.progressed(self.status.pipeline, self.status.run, progress)
            self._screen.progressed(progress)
            if progress.late_rows:
                late = f"{progress.query}: rows came after the watermark, and were left out"
                self._log("warning", f"{late} ({progress.late_rows:,}, or groups of them)")
            for one in progress.dead:
                if one.last > 0:
                    self._log("warning", f"{progress.query}: dead letters in {one.topic}: {one.last:,} more")
        last = tuple(one.last for one in run.watched if one.last is not None)
        self._change(
            queries=last,
            rows_in=sum(one.rows_in for one in run.watched),
            rows_out=reduce(added, (one.rows_out for one in run.watched), 0),
            dead=together(last),
        )

    def _fail(self, run: Run, error: BaseException) -> None:
        """The queries end first: a run that is over may be followed by the next one."""
        # What somebody else ended meanwhile, such as a service manager with all its processes, did not fail.
        if self._stop.is_set() and _is_gone(error):
            self._become("stopped")
            return
        try:
            run.end()
        except Exception as wrong:  # the failure that counts is told below
            self._log("warning", f"not all queries could be stopped: {reason(wrong)}")
        self._log("error", reason(error))
        self._change(state="failed", error=reason(error))
        self._book.say(self.status)

    def _become(self, state: State) -> None:
        self._change(state=state)
        self._book.say(self.status)

    def _change(self, **changes: Any) -> None:
        with self._changing:
            self.status = msgspec.structs.replace(self.status, at_ms=self._now_ms(), **changes)
            self._screen.update(self.status)

    def _log(self, level: Level, text: str) -> None:
        self._book.log(self.status.pipeline, self.status.run, level, text, self._now_ms())
        self._screen.log(level, text)

    def _beat(self) -> None:
        if self._book.taken_over(self.status) is None:
            self._change()
            self._book.say(self.status)


def _waiting_for(other: RunStatus) -> str:
    return (
        f"the last run, on {other.host} (process {other.pid}), has not said that it ended: "
        f"listening for {LISTEN_S:.0f} seconds, in case it is alive"
    )


class TakenOver(MainstemError):
    """While this run could not be heard, another one was started."""


@contextmanager
def beating(beat: Callable[[], None]) -> Iterator[None]:
    """Calls it every few seconds. Spark may be busy for long, and whoever says nothing is taken for dead."""
    over = threading.Event()

    def go() -> None:
        while not over.wait(SAY_S):
            beat()

    thread = threading.Thread(target=go, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _is_gone(error: BaseException) -> bool:
    """Whether it only says that Spark's JVM is no more."""
    is_py4j = type(error).__module__.startswith("py4j")
    return isinstance(error, ConnectionError) or is_py4j or "SparkContext was shut down" in str(error)


def here() -> tuple[str, int]:
    return socket.gethostname(), os.getpid()


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM end a run in order; a second Ctrl-C ends it at once."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears of them
        yield
        return

    def asked(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
