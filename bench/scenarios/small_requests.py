"""Many clients that write one record at a time: where a sync per write hurts most."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.lab import KAFKA, KAFKA_FLUSH, Lab, Scenario
from bench.peers import Server
from bench.scenarios.warm import warm_up, write
from bench.stats import OURS, Bar

LOAD = ("-c", 16, "-m", 4, "-R", 1, "-s", 100)


def prepare(lab: Lab, server: Server, partitions: int) -> None:
    warm_up(lab, server, "raw", partitions, *LOAD)


def measure(lab: Lab, side: str, _round: int, *, partitions: int) -> Mapping[str, float]:
    return write(lab, side, "raw", partitions, "-d", lab.seconds(5, 3), "-w", 0.5, *LOAD)


def scenario(partitions: int) -> Scenario:
    return Scenario(
        name=f"small-requests-{partitions}p",
        title=f"One-record requests, 16 x 4 in flight, {partitions} partition{'s' * (partitions > 1)}",
        conditions="raw Produce requests of one 100 B record, acks=all, 16 connections, closed loop",
        sides=(OURS, KAFKA, KAFKA_FLUSH),
        bars=(
            Bar("requests_per_s", "at least", 1.2, "MUST", KAFKA),
            # Kafka syncs a file per partition: the bar means one, where it can only sync one at a time.
            Bar("requests_per_s", "at least", 10.0, "MUST" if partitions == 1 else "REPORT", KAFKA_FLUSH),
            Bar("peak_rss_mb", "at most", 200, "MUST", unit="MB"),
        ),
        measure=partial(measure, partitions=partitions),
        prepare=partial(prepare, partitions=partitions),
    )


# Both, because the number moves the ratios.
SCENARIOS = (scenario(1), scenario(16))
