"""Spark streams what a topic holds and ends (AvailableNow), in triggers of a million rows.

The connector streams in the Spark that it was made for. Ours runs in the newest, and in that one beside it;
there a Python source cannot bound a trigger, so it reads all in one. Streams are so long that triggers count
more than the start of a query, which takes processes; what short ones get is told beside that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench import programs
from bench.lab import Lab, Scenario
from bench.peers import spark_python
from bench.scenarios.cold import MERGE_NOW
from bench.scenarios.spark_sides import CONNECTOR, OURS_OLDER, TUNED, run, session_of, task_for
from bench.stats import OURS, Bar
from bench.topics import PARTITIONS, fill, held

WARM_ROWS = 8_000_000  # read by a session before it counts
OLDER_BARS = tuple(
    Bar("rows_per_s", "at least", None, "REPORT", peer, side=OURS_OLDER) for peer in (CONNECTOR, TUNED)
)


def measure(
    lab: Lab, side: str, _round: int, *, job: str, record_bytes: int | None, rows: int, triggers: int
) -> Mapping[str, float]:
    server = lab.server(OURS)
    rows = rows // 10 if lab.quick else rows
    topic = lab.topics.get(OURS)
    if topic is None:
        topic = lab.topics[OURS] = "spark-stream"
        fill(server, topic, rows, record_bytes)
        lab.wait_merged(server)  # all runs read the same files
    most = 0 if side == OURS_OLDER else rows // triggers
    task = {"job": job, "topic": topic, "rows": rows, "rows_per_trigger": most}
    session, is_new = session_of(lab, side, older=True)
    if is_new:
        for _ in range(1 if lab.quick else max(1, WARM_ROWS // rows)):
            session.run(task_for(lab, side, task))
    figures = run(lab, side, session, task)
    if held(server, topic) != rows:
        raise programs.LoadFailed(f"{topic} does not hold {rows} rows any more")
    return figures


def scenario(
    name: str,
    title: str,
    least: float | None,
    *,
    job: str,
    record_bytes: int | None,
    rows: int,
    triggers: int,
) -> Scenario:
    older = least is not None
    return Scenario(
        name=name,
        title=title,
        conditions=f"AvailableNow, local[2], {rows:,} rows in {PARTITIONS} partitions, {rows // triggers:,} "
        "to a trigger, start of the query included; a session for each side, warm, its Python without "
        f"Spark's zip; the connector in PySpark {spark_python.VERSION}"
        + (f"; {OURS_OLDER} all in one trigger" if older else ""),
        sides=(OURS, TUNED, CONNECTOR, *([OURS_OLDER] if older else [])),
        bars=(
            Bar("rows_per_s", "at least", least, "REPORT" if least is None else "MUST", CONNECTOR),
            Bar("rows_per_s", "at least", None, "REPORT", TUNED),
            Bar("rows_per_cpu_s", "at least", None, "REPORT", CONNECTOR),
            Bar("rows_per_cpu_s", "at least", None, "REPORT", TUNED),
            # Without the start of the query: what an endless one gets.
            Bar("trigger_rows_per_s", "at least", None, "REPORT", TUNED),
            *(OLDER_BARS if older else ()),
        ),
        measure=partial(measure, job=job, record_bytes=record_bytes, rows=rows, triggers=triggers),
        ours_extra=MERGE_NOW,
    )


SCENARIOS = (
    scenario(
        "spark-stream-100b",
        "Spark, stream of 100 B",
        1.2,
        job="stream",
        record_bytes=100,
        rows=16_000_000,
        triggers=16,
    ),
    scenario(
        "spark-stream-1k",
        "Spark, stream of 1 KiB",
        1.2,
        job="stream",
        record_bytes=1024,
        rows=4_000_000,
        triggers=4,
    ),
    scenario(
        "spark-stream-json",
        "Spark, stream of typed JSON in a window",
        3.0,
        job="stream-json",
        record_bytes=None,
        rows=16_000_000,
        triggers=16,
    ),
    scenario(
        "spark-stream-short-100b",
        "Spark, short stream of 100 B, mostly its start",
        None,
        job="stream",
        record_bytes=100,
        rows=4_000_000,
        triggers=4,
    ),
    scenario(
        "spark-stream-short-json",
        "Spark, short stream of typed JSON in a window, mostly its start",
        None,
        job="stream-json",
        record_bytes=None,
        rows=2_000_000,
        triggers=2,
    ),
)
