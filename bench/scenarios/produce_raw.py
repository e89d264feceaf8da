"""Produce with raw pipelined requests: the same question as in `produce`, where the client is not the limit.

One librdkafka producer takes a whole core and more for its own work, so on two cores a warm broker of either
kind waits for it. Prepared requests cost the load program next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.produce import MOST_MB, run_s
from bench.scenarios.warm import warm_up, write
from bench.stats import OURS, SINK, Bar

BATCH_BYTES = 100_000


def load(record_bytes: int) -> tuple[object, ...]:
    return ("-c", 4, "-m", 4, "-R", BATCH_BYTES // record_bytes, "-s", record_bytes)


def prepare(lab: Lab, server: Server, partitions: int, record_bytes: int) -> None:
    warm_up(lab, server, "raw", partitions, *load(record_bytes))


def measure(lab: Lab, side: str, _round: int, *, partitions: int, record_bytes: int) -> Mapping[str, float]:
    options = ("-d", run_s(lab, record_bytes), "-w", 0.5)
    return write(lab, side, "raw", partitions, *options, *load(record_bytes))


def scenario(partitions: int, record_bytes: int, least: float) -> Scenario:
    size = "1k" if record_bytes == 1024 else f"{record_bytes}b"
    return Scenario(
        name=f"produce-raw-{size}-{partitions}p",
        title=f"Produce {record_bytes} B, raw requests, {partitions} partition{'s' * (partitions > 1)}",
        conditions="raw Produce requests of one 100 KB batch, acks=all, 4 connections x 4 in flight",
        sides=(OURS, KAFKA, SINK),
        bars=(
            Bar("records_per_s", "at least", least, "MUST", KAFKA),
            Bar("cpu_s_per_gb", "at most", 1 / 3, "MUST", KAFKA),
            Bar("peak_rss_mb", "at most", MOST_MB, "MUST", unit="MB"),
        ),
        measure=partial(measure, partitions=partitions, record_bytes=record_bytes),
        prepare=partial(prepare, partitions=partitions, record_bytes=record_bytes),
    )


SCENARIOS = (scenario(1, 100, 1.5), scenario(100, 100, 1.5), scenario(1, 1024, 1.0), scenario(100, 1024, 1.0))
