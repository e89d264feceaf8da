"""Spark reads ten million rows at once, and beside them a topic that holds next to nothing."""

from __future__ import annotations

from collections.abc import Mapping

from bench import programs
from bench.lab import Lab, Scenario
from bench.scenarios.cold import MERGE_NOW
from bench.scenarios.spark_sides import CONNECTOR, TUNED, run, session_of, task_for
from bench.stats import OURS, Bar
from bench.topics import PARTITIONS, fill, held

ROWS, SHORT_ROWS = 10_000_000, 10_000
LONG, SHORT = "spark-history", "spark-short"


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server = lab.server(OURS)
    rows = ROWS // 20 if lab.quick else ROWS
    if OURS not in lab.topics:
        lab.topics[OURS] = LONG
        fill(server, LONG, rows, 100)
        fill(server, SHORT, SHORT_ROWS, 100)
        lab.wait_merged(server)
    history = {"job": "batch", "topic": LONG, "rows": rows}
    short = {"job": "short", "topic": SHORT, "rows": SHORT_ROWS}
    session, is_new = session_of(lab, side, older=False)
    if is_new:
        for task in (history, short):
            session.run(task_for(lab, side, task))
    figures = run(lab, side, session, history)
    figures["short_read_s"] = session.run(task_for(lab, side, short))["read_s"]
    for topic, wanted in ((LONG, rows), (SHORT, SHORT_ROWS)):
        if held(server, topic) != wanted:
            raise programs.LoadFailed(f"{topic} does not hold {wanted} rows any more")
    return figures


SCENARIOS = (
    Scenario(
        name="spark-history",
        title="Spark, batch read of 10 million rows; of 10,000",
        conditions=f"PySpark, local[2], {ROWS:,} rows of 100 B in {PARTITIONS} partitions; short_read_s: a "
        f"read of a topic with {SHORT_ROWS:,}, the median of five; a session for each side, warm",
        sides=(OURS, TUNED, CONNECTOR),
        bars=(
            Bar("rows_per_s", "at least", None, "REPORT", TUNED),
            Bar("rows_per_s", "at least", None, "REPORT", CONNECTOR),
            Bar("rows_per_cpu_s", "at least", 1.2, "REPORT", TUNED),
            Bar("short_read_s", "at most", None, "REPORT", TUNED),
            Bar("short_read_s", "at most", None, "REPORT", CONNECTOR),
        ),
        measure=measure,
        ours_extra=MERGE_NOW,
    ),
)
