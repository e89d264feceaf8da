"""What Spark's scenarios read: as many rows as they are told, and orders that no window drops."""

from __future__ import annotations

import json
from datetime import datetime

from bench.peers import spark_python
from bench.scenarios.pipeline_start import DEAR_ROWS
from bench.topics import BATCH_ROWS, filler, order


def test_orders_lie_within_the_hour_that_a_stream_waits_for_late_ones():
    times = [datetime.fromisoformat(json.loads(order(i))["at"]) for i in range(BATCH_ROWS)]
    assert (max(times) - min(times)).total_seconds() < 3600


def test_as_many_orders_are_dear_as_a_pipeline_is_expected_to_find():
    assert sum(json.loads(order(i))["amount"] >= 250 for i in range(BATCH_ROWS)) == DEAR_ROWS


def test_filler_has_the_size_that_a_scenario_names():
    assert [len(filler(size)) for size in (100, 1024)] == [100, 1024]


def test_older_spark_shares_all_but_itself_with_the_bench(tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    spark_python.share(tmp_path)
    source, shared = (packages / "bench.pth").read_text().split()
    assert source.endswith("src")
    assert shared.endswith("site-packages")
