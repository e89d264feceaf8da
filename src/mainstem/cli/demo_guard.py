"""Runs one of the demo's programs, and sees to it that nothing the program started outlives it or the demo.

    demo ──(stdin, held open)──▶ guard ──▶ program ──▶ whatever it starts, in sessions of its own or not

Run as `python -m mainstem.cli.demo_guard PROGRAM ARGUMENTS`. SIGTERM is passed on to the program. Once the
program has ended, what it has started has a while to end too, then it is killed. When stdin closes, because
the demo says so or is gone in whichever way, all are killed at once. The guard ends last, with the program's
exit code. Orphans become the guard's children, so that it finds them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

LEAVES_S = 20.0  # Spark's JVM may still write its class archive
AGAIN_S = 0.05
_PR_SET_CHILD_SUBREAPER = 36


def _adopt_orphans() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def below(pid: int) -> Iterator[int]:
    """All processes that this one has started, and they theirs."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from below(int(child))


def _kill_all() -> None:
    """Again and again, as one may have started another before it died; the main thread sees the last one."""
    pause = threading.Event()
    while True:
        for pid in set(below(os.getpid())):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        pause.wait(AGAIN_S)


def _watch_demo() -> None:
    while os.read(0, 1024):
        pass
    _kill_all()


def _reap(program: int) -> int:
    """Returns when there is no process left below; the program's exit code."""
    code = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return code
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            late = threading.Timer(LEAVES_S, _kill_all)
            late.daemon = True
            late.start()


def main(command: list[str]) -> None:
    _adopt_orphans()
    asked = threading.Event()
    programs: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        asked.set()
        for pid in programs:
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    signal.signal(signal.SIGTERM, pass_on)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    programs.append(child.pid)
    if asked.is_set():  # before there was somebody to pass it on to
        child.terminate()
    threading.Thread(target=_watch_demo, daemon=True).start()
    code = _reap(child.pid)
    os._exit(code if code >= 0 else 128 - code)  # without waiting for the threads


if __name__ == "__main__":
    main(sys.argv[1:])
