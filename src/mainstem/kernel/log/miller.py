"""The owner's side of the mill: start it when there is work, hand it a job, hear of the outcome."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from mainstem.kernel.log.jobs import Failed, Job, Outcome
from mainstem.kernel.log.mill import decode_outcome, encode_job, read_message, write_message

Post = Callable[[Callable[[Any], None], Any], object]
OnDone = Callable[[Outcome], None]


class Runner(Protocol):
    """Who does jobs. One at a time: `start` again only after `on_done` was called."""

    def start(self, job: Job, on_done: OnDone) -> None:
        """`on_done` is called later, on the owner's thread."""

    def hold(self, held: bool) -> None:
        """Let the job in hand rest, or go on."""

    def abandon(self) -> bool:
        """End the job in hand: `on_done` hears that it failed, unless it was done already. False: not now."""

    def close(self) -> None: ...


class Miller:
    """Runs jobs in a child process. A child that dies is a failed job, and the next job gets a new child."""

    def __init__(self, post: Post, bytes_per_second: int = 0) -> None:
        self._post = post
        self._rate = bytes_per_second
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._held = False
        self._abandoned = False  # the child is being killed
        self._may_be_held = False  # a child that is stopped before it is set up could outlive us
        # One thread for good: the child ends with the thread that started it.
        self._jobs: SimpleQueue[tuple[bytes, OnDone] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    def start(self, job: Job, on_done: OnDone) -> None:
        # Starting a process and filling its pipe take milliseconds: not on the owner's thread.
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="miller", daemon=True)
            self._thread.start()
        self._jobs.put((encode_job(job), on_done))

    def hold(self, held: bool) -> None:
        child = self._child
        if held != self._held and child is not None and self._may_be_held:
            self._held = held
            child.send_signal(signal.SIGSTOP if held else signal.SIGCONT)

    def abandon(self) -> bool:
        child = self._child
        if child is None or not self._may_be_held:
            return False
        self._abandoned = True
        child.kill()
        return True

    def close(self) -> None:
        """Ends the child, in the middle of a job if need be; nobody hears of that job again."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        if self._child is not None:
            self._died("closed")

    def _work(self) -> None:
        while (work := self._jobs.get()) is not None:
            message, on_done = work
            outcome = self._ask(message)
            if not self._closed:
                self._post(on_done, outcome)

    def _ask(self, message: bytes) -> Outcome:
        try:
            if self._abandoned:  # when its job was done already
                self._died("abandoned")
            child = self._child or self._spawn()
            if self._closed:  # while it was being started
                return self._died("closed")
            assert child.stdin is not None
            assert child.stdout is not None
            write_message(child.stdin.fileno(), message)
            answer = read_message(child.stdout.fileno())
        except (OSError, ValueError) as error:
            return self._died(str(error))
        return self._died("it ended") if answer is None else decode_outcome(answer)

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mainstem.kernel.log.mill", str(self._rate)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._child = child
        assert child.stdout is not None
        if read_message(child.stdout.fileno()) is None:
            raise OSError("it ended before it was set up")
        self._may_be_held = True
        return child

    def _died(self, why: str) -> Failed:
        child, self._child = self._child, None
        self._held = self._may_be_held = self._abandoned = False
        if child is None:
            return Failed(f"the mill could not be started: {why}")
        child.kill()
        code = child.wait()
        _close_pipes(child)
        return Failed(f"the mill died with exit code {code}: {why}")


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
