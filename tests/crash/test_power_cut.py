"""Power cuts, which see what kill -9 cannot: a sync that is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.torture.cycles import Plan
from mainstem.torture.disks import LoopDisk, why_no_power_cut
from mainstem.torture.run import torture
from mainstem.torture.server import UNSYNCED_PROGRAM

SEED = 20_251
pytestmark = pytest.mark.skipif(why_no_power_cut() is not None, reason=str(why_no_power_cut()))


def test_a_cut_takes_what_was_not_synced_and_leaves_what_was(tmp_path: Path):
    disk = LoopDisk(tmp_path, 16 << 20)
    disk.create()
    try:
        with (disk.path / "synced").open("wb") as file:
            file.write(b"here to stay")
            file.flush()
            os.fsync(file.fileno())
        (disk.path / "unsynced").write_bytes(b"gone")
        disk.cut()
        disk.power_up()
        assert (disk.path / "synced").read_bytes() == b"here to stay"
        assert not (disk.path / "unsynced").exists()
    finally:
        disk.remove()


def test_power_cuts_lose_nothing_that_was_acknowledged(tmp_path: Path):
    done = torture(Plan(tmp_path / "torture", SEED, ("power",), cycles=3, load_s=1.0))
    assert done.crash == ""
    assert done.verdict.findings() == []
    assert done.strikes["power"] >= 3
    assert done.acked > 500


def test_a_broker_that_does_not_sync_is_found_out_within_five_power_cuts(tmp_path: Path):
    plan = Plan(tmp_path / "torture", SEED, ("power",), cycles=5, load_s=1.0, program=UNSYNCED_PROGRAM)
    done = torture(plan)
    assert not done.is_good
    assert done.cycles <= 5
    # Either it noticed by itself that files are missing, or it served as if nothing had been.
    assert done.crash or done.verdict.checks["present"].wrong
