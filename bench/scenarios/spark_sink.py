"""Spark writes rows to a topic of this broker: ours exactly once, the connector at least once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import programs
from bench.lab import Lab, Scenario
from bench.peers import Server, spark_python
from bench.scenarios.spark_sides import CONNECTOR, TUNED, run, session_of
from bench.spark import Session
from bench.stats import OURS, Bar
from bench.topics import PARTITIONS, client_of, filler, held
from mainstem.client import admin

FILES, ROWS_PER_FILE = 3, 500_000  # a file is a trigger


def write_feed(folder: Path, rows_per_file: int) -> None:
    """Parquet, because Spark's own reader of it costs both sides the same and little."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True)
    keys = [f"c{i % 1000:03d}" for i in range(rows_per_file)]
    table = pa.table({"key": keys, "value": pa.array([filler(100)] * rows_per_file, pa.binary())})
    for number in range(FILES):
        # Several groups of rows to a file: two cores are to have work.
        parquet.write_table(table, folder / f"{number}.parquet", row_group_size=rows_per_file // 8)


def write(lab: Lab, server: Server, side: str, session: Session, rows: int) -> Mapping[str, float]:
    """Into a new topic, which is deleted when its rows have been counted."""
    topic = "spark-sink"
    task = {"job": "sink", "topic": topic, "rows": rows}
    with client_of(server) as client:
        admin.create_topic(client, topic, PARTITIONS)
        client.topic(topic)
        figures = run(lab, side, session, task)
        found = held(server, topic)
        admin.delete_topic(client, topic)
    if found != rows:
        raise programs.LoadFailed(f"{side} wrote {found} rows, not {rows}")
    # What a sink costs the broker is its own doing: stage and publish, or batches as they come.
    return {**figures, "rows_per_cpu_s": rows / (figures["cpu_s"] + figures["broker_cpu_s"])}


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server = lab.server(OURS)
    rows_per_file = ROWS_PER_FILE // 10 if lab.quick else ROWS_PER_FILE
    rows = FILES * rows_per_file
    if not (lab.root / "feed").exists():
        write_feed(lab.root / "feed", rows_per_file)
    session, is_new = session_of(lab, side, older=True)
    if is_new:
        write(lab, server, side, session, rows)
    return write(lab, server, side, session, rows)


SCENARIOS = (
    Scenario(
        name="spark-sink",
        title="Spark, stream written to a topic, 100 B",
        conditions=f"AvailableNow, local[2], {FILES * ROWS_PER_FILE:,} rows with a key from Parquet, "
        f"{ROWS_PER_FILE:,} to a trigger, into {PARTITIONS} partitions of one Mainstem; ours exactly once; "
        f"the connector, which cuts and repeats batches after a crash, in PySpark {spark_python.VERSION}; a "
        "session for each side, warm; CPU with the broker's",
        sides=(OURS, TUNED, CONNECTOR),
        bars=(
            Bar("rows_per_s", "at least", None, "REPORT", CONNECTOR),
            Bar("rows_per_s", "at least", None, "REPORT", TUNED),
            Bar("rows_per_cpu_s", "at least", None, "REPORT", CONNECTOR),
            Bar("rows_per_cpu_s", "at least", None, "REPORT", TUNED),
        ),
        measure=measure,
    ),
)
