"""Spark reads a topic of this broker: by our source, and by Spark's own Kafka connector."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench import programs
from bench.lab import Lab, Scenario
from bench.peers import spark_connector
from bench.stats import OURS, Bar
from bench.topics import PARTITIONS, fill, held

CONNECTOR, TUNED = "connector", "connector-tuned"
JOB = Path(__file__).parents[1] / "load" / "spark_read.py"


def measure(
    lab: Lab, side: str, _round: int, *, job: str, record_bytes: int | None, rows: int
) -> Mapping[str, float]:
    server = lab.server(OURS)
    rows = rows if not lab.quick else rows // 4
    topic = lab.topics.get(OURS)
    if topic is None:
        topic = lab.topics[OURS] = "spark-read"
        fill(server, topic, rows, record_bytes)
    lab.settle()
    jars = "" if side == OURS else spark_connector.jars()
    command = [sys.executable, str(JOB), side, job, f"127.0.0.1:{server.port}", topic, str(rows), jars]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        tail = done.stderr.strip()[-2000:]
        # Of many lines only the first gets into the table, and Spark says why in the last.
        raise programs.LoadFailed(f"{side} {job}: {tail.rpartition(chr(10))[2]}\n{tail}")
    if held(server, topic) != rows:
        raise programs.LoadFailed(f"{topic} does not hold {rows} rows any more")
    return {name: float(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def scenario(
    name: str, title: str, bars: tuple[Bar, ...], *, job: str, record_bytes: int | None, rows: int
) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        conditions=f"PySpark, local[2], {rows:,} rows in {PARTITIONS} partitions; read once before it counts",
        sides=(OURS, TUNED, CONNECTOR),
        bars=bars,
        measure=partial(measure, job=job, record_bytes=record_bytes, rows=rows),
    )


def bars(least: float) -> tuple[Bar, ...]:
    return (
        Bar("rows_per_s", "at least", least, "MUST", TUNED),
        Bar("rows_per_s", "at least", None, "REPORT", CONNECTOR),
        Bar("rows_per_cpu_s", "at least", 1.2, "REPORT", TUNED),
    )


SCENARIOS = (
    scenario(
        "spark-100b", "Spark, batch read of 100 B", bars(1.5), job="noop", record_bytes=100, rows=4_000_000
    ),
    scenario(
        "spark-1k", "Spark, batch read of 1 KiB", bars(1.3), job="noop", record_bytes=1024, rows=600_000
    ),
    scenario(
        "spark-json",
        "Spark, typed JSON in a window",
        bars(4.0),
        job="json",
        record_bytes=None,
        rows=2_000_000,
    ),
)
