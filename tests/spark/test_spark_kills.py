"""kill -9 of driver, worker and broker while rows go through: the short tier of `mainstem torture spark`."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.torture.spark_run import SparkPlan, torture_spark

SEED = 4


def checked(done) -> set[str]:
    return {name for name, check in done.verdict.checks.items() if check.checked}


@pytest.mark.timeout(
    600
)  # two drivers are started, which takes a minute each on a machine that is overloaded
def test_every_row_is_counted_once_whatever_is_killed(tmp_path: Path):
    plan = SparkPlan(
        tmp_path / "torture", SEED, rows=20_000, kills=3, triggers=10, cluster=False, with_firsts=False
    )
    done = torture_spark(plan)
    assert done.crash == ""
    assert done.verdict.findings() == []
    assert done.strikes == {"driver": 1, "python worker": 1, "broker": 1}
    assert checked(done) == {"sent", "copied", "windows", "batches", "stays"}
    assert done.is_good


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_million_rows_are_counted_once_across_twenty_kills_on_a_cluster(tmp_path: Path):
    done = torture_spark(SparkPlan(tmp_path / "torture", SEED))
    assert done.crash == ""
    assert done.verdict.findings() == []
    assert done.strikes == {"driver": 5, "executor": 5, "python worker": 5, "broker": 5}
    assert done.is_good
