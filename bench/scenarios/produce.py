"""Produce with librdkafka: Mainstem syncs before it answers, Kafka does not.

The bars for 100 B are asked of one producer and of two. One may be slower where nothing is kept (the sink)
than two are at Mainstem: its two threads pass every record through locks of their own and from one processor
to another, and so on some processors it measures itself. For 1 KiB one is enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.warm import warm_up, write
from bench.stats import OURS, SINK, Bar, Level

RUN_S, QUICK_S = 5.0, 3.0
LARGE_RUN_S = 3.0  # of large records: all sides' data together must fit on a disk with 80 GB free
MOST_MB = 200
RUN_RECORDS = 1000  # records to one partition before the next: enough that librdkafka is not the limit


def run_s(lab: Lab, record_bytes: int) -> float:
    return lab.seconds(LARGE_RUN_S if record_bytes > 100 else RUN_S, QUICK_S)


def prepare(lab: Lab, server: Server, partitions: int, record_bytes: int, run: int, producers: int) -> None:
    warm_up(lab, server, "produce", partitions, "-s", record_bytes, "-r", run, "-k", producers)


def measure(
    lab: Lab, side: str, _round: int, *, partitions: int, record_bytes: int, run: int, producers: int
) -> Mapping[str, float]:
    options = ("-s", record_bytes, "-r", run, "-k", producers, "-d", run_s(lab, record_bytes))
    return write(lab, side, "produce", partitions, *options)


def scenario(
    partitions: int,
    record_bytes: int,
    least: float,
    *,
    run: int = RUN_RECORDS,
    producers: int = 1,
    level: Level = "MUST",
) -> Scenario:
    size = "1k" if record_bytes == 1024 else f"{record_bytes}b"
    one_by_one = run == 1 and partitions > 1
    spread = "records go round one by one" if one_by_one else f"{run:,} records to a partition, then the next"
    return Scenario(
        name=f"produce-{size}-{partitions}p{'-each' if one_by_one else ''}{'-two' if producers == 2 else ''}",
        title=f"Produce {record_bytes} B, {partitions} partition{'s' if partitions > 1 else ''}"
        + (", one by one" if one_by_one else "")
        + (", two producers" if producers == 2 else ""),
        conditions=f"librdkafka, {'two producers' if producers == 2 else 'one producer'}, acks=all,"
        f" its default batching; {spread}",
        sides=(OURS, KAFKA, SINK),
        bars=(
            Bar("records_per_s", "at least", least, level, KAFKA),
            Bar("records_per_s", "at least", None, "REPORT", SINK),
            Bar("cpu_s_per_gb", "at most", 1 / 3, "MUST", KAFKA),
            Bar("peak_rss_mb", "at most", MOST_MB, "MUST", unit="MB"),
        ),
        measure=partial(
            measure, partitions=partitions, record_bytes=record_bytes, run=run, producers=producers
        ),
        prepare=partial(
            prepare, partitions=partitions, record_bytes=record_bytes, run=run, producers=producers
        ),
    )


SCENARIOS = (
    scenario(1, 100, 1.5, producers=2),
    scenario(100, 100, 1.5, producers=2),
    scenario(1, 100, 1.5),
    scenario(100, 100, 1.5),
    scenario(100, 100, 1.5, run=1, level="REPORT"),
    scenario(1, 1024, 1.0),
    scenario(100, 1024, 1.0),
)
