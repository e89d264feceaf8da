"""kill -9 under a load on queues, again and again: the short tier of `mainstem torture queues`."""

from __future__ import annotations

from pathlib import Path

from mainstem.torture.cycles import Plan
from mainstem.torture.queue_run import torture_queues

SEED = 20_260


def test_kill_9_under_load_loses_no_message_and_repeats_none_unsaid(tmp_path: Path):
    aims = ("snapshot", "any moment")
    done = torture_queues(Plan(tmp_path / "torture", SEED, ("kill",), cycles=2, load_s=1.0, aims=aims))
    assert done.crash == ""
    assert done.verdict.findings() == []
    assert done.strikes["kill"] >= 2
    # It was a load: every promise was put to the test.
    assert done.acked > 200
    assert [name for name, check in done.verdict.checks.items() if not check.checked] == []
