"""Power cuts under a load on queues, which see what kill -9 cannot: a sync that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.torture.cycles import Plan
from mainstem.torture.disks import why_no_power_cut
from mainstem.torture.queue_run import torture_queues
from mainstem.torture.server import UNSYNCED_PROGRAM

SEED = 20_261
pytestmark = pytest.mark.skipif(why_no_power_cut() is not None, reason=str(why_no_power_cut()))


def test_power_cuts_lose_no_message_and_repeat_none_unsaid(tmp_path: Path):
    done = torture_queues(Plan(tmp_path / "torture", SEED, ("power",), cycles=2, load_s=1.0))
    assert done.crash == ""
    assert done.verdict.findings() == []
    assert done.strikes["power"] >= 2
    assert done.acked > 200


def test_a_broker_that_does_not_sync_loses_messages_within_five_power_cuts(tmp_path: Path):
    plan = Plan(tmp_path / "torture", SEED, ("power",), cycles=5, load_s=1.0, program=UNSYNCED_PROGRAM)
    done = torture_queues(plan)
    assert not done.is_good
    assert done.cycles <= 5
    # Either it noticed by itself that files are missing, or it served as if nothing had been.
    assert done.crash or done.verdict.checks["present"].wrong
