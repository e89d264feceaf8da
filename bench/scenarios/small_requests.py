"""Many clients that write one record at a time: where a sync per write hurts most."""

from __future__ import annotations

from collections.abc import Mapping

from bench.lab import KAFKA, KAFKA_FLUSH, Lab, Scenario
from bench.peers import Server
from bench.scenarios.warm import warm_up
from bench.stats import OURS, Bar

PARTITIONS = 16  # one a connection: a single one would hold Kafka back by its log lock
LOAD = ("-c", 16, "-m", 4, "-R", 1, "-s", 100)


def prepare(lab: Lab, server: Server) -> None:
    warm_up(lab, server, "raw", PARTITIONS, *LOAD)


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server, topic = lab.server(side), lab.topics[side]
    options = ("-p", PARTITIONS, "-d", lab.seconds(5, 3), "-w", 0.5)
    return lab.metered_load(server, "raw", topic, *options, *LOAD)


SCENARIOS = (
    Scenario(
        name="small-requests",
        title="One-record requests, 16 connections x 4 in flight",
        conditions="raw pipelined Produce requests of one 100 B record, acks=all, 16 partitions, closed loop",
        sides=(OURS, KAFKA, KAFKA_FLUSH),
        bars=(
            Bar("requests_per_s", "at least", 1.2, "MUST", KAFKA),
            Bar("requests_per_s", "at least", 10.0, "MUST", KAFKA_FLUSH),
            Bar("peak_rss_mb", "at most", 200, "MUST", unit="MB"),
        ),
        measure=measure,
        prepare=prepare,
    ),
)
