"""A sync fails: nothing is acknowledged any more, the process ends and says why, nothing acked is lost."""

from __future__ import annotations

import os
import random
import shutil
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
# The n-th write of a thread: the journal's return once they are on disk.
# It fails after a while, so that answers to earlier rounds are out by then.
FAILING = 60
DELAY_US = 300_000

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or os.geteuid() != 0,
    reason="making a system call of the broker fail needs strace, and root",
)


@pytest.fixture
def traced(tmp_path: Path):
    trace = tmp_path / "trace.txt"
    fault = f"inject=pwritev2:error=EIO:delay_enter={DELAY_US}:when={FAILING}"
    before = ["strace", "-f", "-o", str(trace), "-e", "trace=pwritev2,sendto,sendmsg", "-e", fault]
    server = Server(tmp_path / "data", before=before)
    yield server, trace
    server.kill_all()


def test_after_a_failed_sync_nobody_is_told_anything_and_the_process_ends(traced):
    server, trace = traced
    server.start()
    with Client(ClientSettings(parse_bootstrap(server.kafka))) as client:
        create_topic(client, "orders", len(PLACES))
    ledger, gate = Ledger(), Gate()
    writer = ledger.writer("idempotent", Repeats.ONCE)
    sender = Sender(writer, server.kafka, PLACES, random.Random(1), gate, ledger, enable_idempotence=True)
    sender.start()
    gate.open()

    assert server.wait(60) == DISK_FAILED
    assert "the disk failed" in server.log_tail()
    assert "Nothing is acknowledged after this" in server.log_tail()
    lines = trace.read_text().splitlines()
    failed = next(number for number, line in enumerate(lines) if "INJECTED" in line)
    assert [line for line in lines[failed:] if "sendto(" in line or "sendmsg(" in line] == []
    assert writer.acked

    server.before = ()
    server.start()
    gate.close()
    assert gate.wait_for_rest([sender], 60) == []
    gate.end()
    assert judge(ledger, read_back(server.kafka, PLACES, [])).findings() == []
    assert len(writer.acked) == len(writer.sent)
