"""A merge that rests while clients are busy: its process is stopped, and nothing else is lost by that."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from merge_house import House
from test_mill import Mailbox, seal_job

from mainstem.kernel.log.jobs import Failed, Outcome, Sealed
from mainstem.kernel.log.miller import Miller

PATIENCE_S = 60.0
SLOW = 100  # bytes per second: no job ends while a test runs
LINUX = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the state of another process is read from /proc"
)


def until(look: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not look():
        assert time.monotonic() < end, f"waited {PATIENCE_S} s for {what}"
        os.sched_yield()


def state(pid: int) -> str:
    """As the kernel calls it: T is stopped; empty once the process is over, waited for or not."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if found in "ZX" else found


class Mill:
    """A miller with a job for it, and what came of those it was given."""

    def __init__(self, folder: Path, bytes_per_second: int) -> None:
        self.house = House(str(folder))
        self.house.append(1)
        self.house.roll()
        self.mail = Mailbox()
        self.outcomes: list[Outcome] = []
        self.miller = Miller(self.mail.post, bytes_per_second)

    def start(self) -> None:
        self.miller.start(seal_job(self.house), self.outcomes.append)

    def do(self) -> Outcome:
        """One job, to its end."""
        self.start()
        self.mail.take()
        return self.outcomes[-1]

    def pid(self) -> int:
        until(lambda: self.miller.pid is not None, "a child")
        pid = self.miller.pid
        assert pid is not None
        return pid

    def stop(self, pid: int) -> None:
        """Asked again and again, as upkeep does: a child that is not set up yet is let be."""

        def stopped() -> bool:
            self.miller.hold(True)
            return state(pid) == "T"

        until(stopped, "the child to stop")


@pytest.fixture
def mill(tmp_path: Path) -> Iterator[Mill]:
    made = Mill(tmp_path, 0)
    yield made
    made.miller.close()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Mill]:
    made = Mill(tmp_path, SLOW)
    yield made
    made.miller.close()


@LINUX
def test_a_held_child_is_stopped_and_does_its_job_once_it_is_let_go(mill):
    assert isinstance(mill.do(), Sealed)
    pid = mill.pid()
    assert state(pid) != "T"
    mill.miller.hold(True)
    until(lambda: state(pid) == "T", "the child to stop")
    mill.start()
    assert state(pid) == "T"
    assert len(mill.outcomes) == 1
    mill.miller.hold(False)
    mill.mail.take()
    assert isinstance(mill.outcomes[1], Sealed)
    assert mill.miller.pid == pid


@LINUX
def test_a_child_is_stopped_in_the_middle_of_a_job_and_goes_on(slow):
    slow.start()
    pid = slow.pid()
    for _ in range(3):
        slow.stop(pid)
        slow.miller.hold(False)
        until(lambda: state(pid) != "T", "the child to go on")
    assert state(pid) != ""
    assert not slow.outcomes


@LINUX
def test_holding_twice_is_undone_by_letting_go_once(mill):
    mill.do()
    pid = mill.pid()
    mill.miller.hold(True)
    mill.miller.hold(True)
    until(lambda: state(pid) == "T", "the child to stop")
    mill.miller.hold(False)
    mill.miller.hold(False)
    assert isinstance(mill.do(), Sealed)
    assert mill.miller.pid == pid


@LINUX
def test_closing_ends_a_child_that_is_stopped(slow):
    slow.start()
    pid = slow.pid()
    slow.stop(pid)
    slow.miller.close()
    assert not os.path.exists(f"/proc/{pid}")
    assert slow.miller.pid is None
    assert not slow.outcomes


@LINUX
def test_a_stopped_child_that_is_killed_is_a_failed_job_and_the_next_child_starts_anew(mill):
    mill.do()
    pid = mill.pid()
    mill.miller.hold(True)
    until(lambda: state(pid) == "T", "the child to stop")
    mill.start()
    os.kill(pid, signal.SIGKILL)
    mill.mail.take()
    assert isinstance(mill.outcomes[1], Failed)
    assert isinstance(mill.do(), Sealed)  # nobody let it go
    new = mill.pid()
    assert new != pid
    mill.miller.hold(True)
    until(lambda: state(new) == "T", "the new child to stop")


@LINUX
def test_a_job_that_is_abandoned_has_failed_even_while_it_rests_and_the_next_gets_a_new_child(slow):
    slow.start()
    pid = slow.pid()
    slow.stop(pid)
    assert slow.miller.abandon()
    slow.mail.take()
    assert isinstance(slow.outcomes[0], Failed)
    assert state(pid) == ""
    slow.start()
    assert slow.pid() != pid


def test_there_may_be_nothing_to_abandon(mill):
    assert not mill.miller.abandon()
    assert isinstance(mill.do(), Sealed)


@LINUX
def test_a_job_that_was_done_when_it_was_abandoned_does_not_fail_the_next(mill):
    assert isinstance(mill.do(), Sealed)
    pid = mill.pid()
    assert mill.miller.abandon()
    until(lambda: state(pid) == "", "the child to end")
    assert isinstance(mill.do(), Sealed)


@LINUX
def test_holding_without_a_child_changes_nothing_for_one_that_comes_later(mill):
    mill.miller.hold(True)
    mill.miller.hold(False)
    mill.miller.hold(True)
    assert mill.miller.pid is None
    assert isinstance(mill.do(), Sealed)
    pid = mill.pid()
    mill.miller.hold(True)
    until(lambda: state(pid) == "T", "the child to stop")


def test_holding_a_child_that_is_dead_does_no_harm(mill):
    mill.do()
    pid = mill.pid()
    os.kill(pid, signal.SIGKILL)
    # Nobody waits for a child between two jobs: it is dead, and the miller does not know.
    mill.miller.hold(True)
    mill.miller.hold(False)
    mill.miller.hold(True)
    assert isinstance(mill.do(), Failed)
    assert mill.miller.pid is None
    mill.miller.hold(True)
    assert isinstance(mill.do(), Sealed)


def test_holding_after_closing_does_no_harm(mill):
    mill.do()
    mill.miller.close()
    mill.miller.hold(True)
    mill.miller.hold(False)
    assert mill.miller.pid is None


PARENT = """
import sys
from pathlib import Path
from test_miller_hold import SLOW, Mill
mill = Mill(Path(sys.argv[1]), SLOW)
mill.start()
pid = mill.pid()
mill.stop(pid)
print(pid, flush=True)
mill.mail.take()
"""


@LINUX
def test_a_killed_parent_leaves_no_stopped_child_behind(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        try:
            assert state(pid) == "T"
            parent.kill()
            parent.wait()
            until(lambda: state(pid) == "", "the child to end with its parent")
        finally:
            parent.kill()
            if state(pid) == "T":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@LINUX
def test_a_child_that_is_not_set_up_yet_is_not_stopped(mill, tmp_path, monkeypatch):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr("mainstem.kernel.log.miller.sys.executable", str(silent))
    mill.start()
    until(lambda: mill.miller.pid is not None, "a child")
    pid = mill.miller.pid
    mill.miller.hold(True)
    assert state(pid) != "T"
    mill.miller.close()
    assert mill.outcomes == []
