"""Spark reads a topic of this broker: by our source, and by Spark's own Kafka connector."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench import programs
from bench.lab import Lab, Scenario
from bench.peers import Server, spark_connector
from bench.stats import OURS, Bar
from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.records import Record, encode_batch

CONNECTOR, TUNED = "connector", "connector-tuned"
JOB = Path(__file__).parents[1] / "load" / "spark_read.py"
PARTITIONS = 4
BATCH_ROWS = 1000
REGIONS = ("north", "south", "east", "west")


def order(i: int) -> bytes:
    """98 bytes or so."""
    minute, second = i // 60 % 60, i % 60
    return (
        f'{{"id":{1_000_000 + i},"region":"{REGIONS[i % 4]}","customer":"c{i % 1000:03d}",'
        f'"amount":{i % 500}.25,"at":"2024-05-01T10:{minute:02d}:{second:02d}Z"}}'
    ).encode()


def fill(server: Server, topic: str, rows: int, record_bytes: int, job: str) -> None:
    """The same batches again and again: only their number counts."""
    with Client(ClientSettings(parse_bootstrap(f"127.0.0.1:{server.port}"))) as client:
        admin.create_topic(client, topic, PARTITIONS)
        client.topic(topic)
        filler = (b"0123456789abcdef" * (record_bytes // 16 + 1))[:record_bytes]
        values = [order(i) if job == "json" else filler for i in range(BATCH_ROWS)]
        now_ms = int(time.time() * 1000)  # records of long ago would go with the next retention pass
        batch = encode_batch([Record(0, now_ms + i, None, value) for i, value in enumerate(values)])
        for number in range(rows // BATCH_ROWS):
            client.produce({TopicPartition(topic, number % PARTITIONS): batch})


def held(server: Server, topic: str) -> int:
    with Client(ClientSettings(parse_bootstrap(f"127.0.0.1:{server.port}"))) as client:
        return sum(end - first for first, end in client.bounds([topic]).values())


def measure(
    lab: Lab, side: str, _round: int, *, job: str, record_bytes: int, rows: int
) -> Mapping[str, float]:
    server = lab.server(OURS)
    rows = rows if not lab.quick else rows // 4
    topic = lab.topics.get(OURS)
    if topic is None:
        topic = lab.topics[OURS] = "spark-read"
        fill(server, topic, rows, record_bytes, job)
    lab.settle()
    jars = "" if side == OURS else spark_connector.jars()
    command = [sys.executable, str(JOB), side, job, f"127.0.0.1:{server.port}", topic, str(rows), jars]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise programs.LoadFailed(f"{side} {job}: {done.stderr.strip()[-2000:]}")
    if held(server, topic) != rows:
        raise programs.LoadFailed(f"{topic} does not hold {rows} rows any more")
    return {name: float(value) for name, value in json.loads(done.stdout.splitlines()[-1]).items()}


def scenario(
    name: str, title: str, bars: tuple[Bar, ...], *, job: str, record_bytes: int, rows: int
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
        "spark-json", "Spark, typed JSON in a window", bars(4.0), job="json", record_bytes=98, rows=2_000_000
    ),
)
