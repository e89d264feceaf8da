"""A sync fails: nothing is acknowledged any more, the process ends and says why, nothing acked is lost."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.admin import create_topic
from mainstem.torture.gate import Gate
from mainstem.torture.judge import judge
from mainstem.torture.ledger import Ledger, Repeats
from mainstem.torture.producers import Sender
from mainstem.torture.readback import read_back
from mainstem.torture.server import Server

PLACES = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
DISK_FAILED = 70  # exit code
# A call fails after a while, so that answers to what was on disk before it are out by then.
DELAY_US = 300_000
IDS = range(1, 100)  # of files; more than are made until the call fails
JOURNALS = [f"files/{number:010}.journal" for number in IDS]
RUNS = [f"files/{number:010}.run" for number in IDS]
# What fails where: the call, its files, and which of a thread's calls there.
JOURNAL_CALLS = [
    pytest.param("pwritev2", JOURNALS, 60, id="round"),
    # The first file is synced by nobody but the journal's thread; others by the housekeeper that fills them.
    pytest.param("fdatasync", JOURNALS[:1], 1, id="seal"),
]
HOUSE_CALLS = [
    pytest.param("fdatasync", JOURNALS[2:], 1, id="next-file-filled"),
    pytest.param("fsync", JOURNALS, 1, id="next-file"),
    pytest.param("fsync", ["files"], 1, id="folder-of-files"),
    pytest.param("fsync", [f"files/{number:010}.places.new" for number in IDS], 1, id="sidecar"),
    pytest.param("fsync", [f"snapshots/{number:010}.state.new" for number in IDS], 1, id="snapshot"),
    pytest.param("fsync", ["MANIFEST.new"], 1, id="manifest"),
    pytest.param("fsync", ["."], 1, id="folder-of-the-manifest"),
]

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or os.geteuid() != 0,
    reason="making a system call of the broker fail needs strace (sh tools/strace.sh), and root",
)


def until(look: Callable[[], object]) -> None:
    """The test's own timeout ends it."""
    while not look():
        time.sleep(0.005)


class Failing:
    """A broker that serves, and whose disk is made to fail under load."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(folder / "data")
        self.trace = folder / "trace.txt"
        self.ledger, self.gate = Ledger(), Gate()
        self.writer = self.ledger.writer("idempotent", Repeats.ONCE)
        self.strace: subprocess.Popen[str] | None = None

    def serve(self) -> None:
        """Until first records are acknowledged: every connection that is needed is there then."""
        self.server.start()
        with Client(ClientSettings(parse_bootstrap(self.server.kafka))) as client:
            create_topic(client, "orders", len(PLACES))
        chance = random.Random(1)
        address = self.server.kafka
        self.sender = Sender(
            self.writer, address, PLACES, chance, self.gate, self.ledger, enable_idempotence=True
        )
        self.sender.start()
        self.gate.open()
        until(lambda: self.writer.acked)
        self.gate.close()
        assert self.gate.wait_for_rest([self.sender], 60) == []

    def fail(self, call: str, files: list[str], when: int) -> None:
        """From now on, under load."""
        data, links = self.server.data.resolve(), Path(f"/proc/{self.server.pid}/fd").iterdir()
        sockets = [name for link in links if (name := os.readlink(link)).startswith("socket:")]
        paths = [flag for path in [*(data / file for file in files), *sockets] for flag in ("-P", str(path))]
        fault = f"inject={call}:error=EIO:delay_enter={DELAY_US}:when={when}"
        command = ["strace", "-f", "-p", str(self.server.pid), "-o", str(self.trace), *paths]
        command += ["-e", f"trace={call},sendto,sendmsg", "-e", fault]
        self.strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = iter(self.strace.stderr)  # what comes first may be notes on its paths
        assert any("attached" in line for line in said)
        self.gate.open()

    def assert_it_ends_and_says_why(self) -> None:
        assert self.server.wait(60) == DISK_FAILED
        self.strace.communicate(timeout=60)
        assert "the disk failed" in self.server.log_tail()
        assert "Input/output error" in self.server.log_tail()
        assert "Nothing is acknowledged after this" in self.server.log_tail()

    def assert_all_is_there_after_a_restart(self) -> None:
        self.server.start()
        self.gate.close()
        assert self.gate.wait_for_rest([self.sender], 60) == []
        self.gate.end()
        assert judge(self.ledger, read_back(self.server.kafka, PLACES, [])).findings() == []
        assert len(self.writer.acked) == len(self.writer.sent)

    def close(self) -> None:
        self.gate.end()
        self.server.kill_all()
        if self.strace is not None:
            self.strace.kill()
            self.strace.communicate()


@pytest.fixture
def failing(tmp_path: Path):
    it = Failing(tmp_path)
    it.serve()
    yield it
    it.close()


@pytest.mark.parametrize(("call", "files", "when"), JOURNAL_CALLS)
def test_after_a_failed_write_or_sync_of_the_journal_nobody_is_told_anything(failing, call, files, when):
    failing.fail(call, files, when)
    failing.assert_it_ends_and_says_why()
    lines = failing.trace.read_text().splitlines()
    failed = next(number for number, line in enumerate(lines) if "INJECTED" in line)
    assert any("sendto(" in line or "sendmsg(" in line for line in lines[:failed])
    assert [line for line in lines[failed:] if "sendto(" in line or "sendmsg(" in line] == []
    failing.assert_all_is_there_after_a_restart()


@pytest.mark.parametrize(("call", "files", "when"), HOUSE_CALLS)
def test_after_a_failed_sync_beside_the_journal_the_process_ends_and_nothing_acked_is_lost(
    failing, call, files, when
):
    """What the journal's thread had on disk when it was stopped may still be acknowledged, and is there."""
    failing.fail(call, files, when)
    failing.assert_it_ends_and_says_why()
    assert "INJECTED" in failing.trace.read_text()
    failing.assert_all_is_there_after_a_restart()


def test_a_failed_sync_of_a_merged_file_costs_that_merge_and_nothing_else(failing):
    """What is merged is on disk already, in the files that it was merged from."""
    failing.fail("fsync", RUNS, 1)
    until(lambda: "INJECTED" in failing.trace.read_text())
    until(lambda: "Input/output error" in failing.server.log.read_text())
    acked = len(failing.writer.acked)
    until(lambda: len(failing.writer.acked) > acked + 1000)
    assert failing.server.poll() is None
    failing.server.kill()
    failing.assert_all_is_there_after_a_restart()
