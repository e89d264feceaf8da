"""Produce with librdkafka: Mainstem syncs before it answers, Kafka does not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.warm import warm_up
from bench.stats import OURS, SINK, Bar

RUN_S, QUICK_S = 5.0, 3.0
LARGE_RUN_S = 3.0  # of large records: all sides' data together must fit on a disk with 80 GB free
MOST_MB = 200


def run_s(lab: Lab, record_bytes: int) -> float:
    return lab.seconds(LARGE_RUN_S if record_bytes > 100 else RUN_S, QUICK_S)


def prepare(lab: Lab, server: Server, partitions: int, record_bytes: int) -> None:
    warm_up(lab, server, "produce", partitions, "-s", record_bytes)


def measure(lab: Lab, side: str, _round: int, *, partitions: int, record_bytes: int) -> Mapping[str, float]:
    server, topic = lab.server(side), lab.topics[side]
    options = ("-p", partitions, "-s", record_bytes, "-d", run_s(lab, record_bytes))
    return lab.metered_load(server, "produce", topic, *options)


def scenario(partitions: int, record_bytes: int, least: float) -> Scenario:
    size = "1k" if record_bytes == 1024 else f"{record_bytes}b"
    return Scenario(
        name=f"produce-{size}-{partitions}p",
        title=f"Produce {record_bytes} B, {partitions} partition{'s' if partitions > 1 else ''}",
        conditions="librdkafka, one producer, acks=all, its default batching; records spread evenly",
        sides=(OURS, KAFKA, SINK),
        bars=(
            Bar("records_per_s", "at least", least, "MUST", KAFKA),
            Bar("records_per_s", "at least", None, "REPORT", SINK),
            Bar("cpu_s_per_gb", "at most", 1 / 3, "MUST", KAFKA),
            Bar("peak_rss_mb", "at most", MOST_MB, "MUST", unit="MB"),
        ),
        measure=partial(measure, partitions=partitions, record_bytes=record_bytes),
        prepare=partial(prepare, partitions=partitions, record_bytes=record_bytes),
    )


SCENARIOS = (scenario(1, 100, 1.5), scenario(100, 100, 1.5), scenario(1, 1024, 1.0), scenario(100, 1024, 1.0))
