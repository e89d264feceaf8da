"""kill -9 under load, again and again: the short tier of `mainstem torture`."""

from __future__ import annotations

from pathlib import Path

from mainstem.torture.cycles import Plan
from mainstem.torture.run import torture

SEED = 20_250


def test_kill_9_under_load_loses_repeats_and_tears_nothing(tmp_path: Path):
    aims = ("snapshot", "file roll", "merge", "any moment")
    done = torture(Plan(tmp_path / "torture", SEED, ("kill",), cycles=4, load_s=1.0, aims=aims))
    assert done.crash == ""
    assert done.verdict.findings() == []
    assert done.strikes["kill"] >= 4
    # It was a load: every promise was put to the test.
    assert done.acked > 500
    assert {name for name, check in done.verdict.checks.items() if not check.checked} <= {"pipeline"}
