"""What merging costs: bytes written again for each byte that producers wrote, and CPU with it included."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from bench import meter, programs
from bench.lab import CannotRun, Lab, Scenario, read_metrics
from bench.scenarios.cold import MERGE_NOW
from bench.stats import OURS, Bar

PARTITIONS, RECORD_BYTES = 1000, 1024
WRITTEN_BYTES, WRITTEN_QUICK_BYTES = 3e9, 1e9
MERGED_BYTES = "mainstem_merge_written_bytes"


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server = lab.launch(side, extra=MERGE_NOW)
    topic = lab.topic(server, PARTITIONS)
    records = int(lab.seconds(WRITTEN_BYTES, WRITTEN_QUICK_BYTES) / RECORD_BYTES)
    with meter.metered(server.pid) as cost:
        result = programs.run(
            "produce", server.port, topic, "-p", PARTITIONS, "-s", RECORD_BYTES, "-r", 1, "-n", records
        )
        lab.wait_merged(server)
    metrics = read_metrics(server)
    merged = metrics.get(MERGED_BYTES, metrics.get(f"{MERGED_BYTES}_total"))
    if merged is None:
        raise CannotRun(f"/metrics does not have {MERGED_BYTES}")
    server.stop()
    shutil.rmtree(server.data)
    return {
        "write_amplification": (result["bytes"] + merged) / result["bytes"],
        "merged_bytes": merged,
        "cpu_s_per_gb_with_merge": cost.cpu_s / (result["bytes"] / 1e9),
        "peak_rss_mb": cost.peak_rss_mb,
    }


SCENARIOS = (
    Scenario(
        name="write-amplification",
        title="Write amplification of merge",
        conditions="3 GB of 1 KiB records evenly over 1,000 partitions, all full files merged; from /metrics",
        sides=(OURS,),
        bars=(Bar("write_amplification", "at most", None, "REPORT", unit="x"),),
        measure=measure,
        max_rounds=2,
    ),
)
