"""End-to-end latency at a rate that both take with ease, with the same promise: on disk before the answer."""

from __future__ import annotations

from collections.abc import Mapping

from bench.lab import KAFKA_FLUSH, Lab, Scenario
from bench.peers import Server
from bench.scenarios.warm import warm_up
from bench.stats import OURS, Bar

# Five in flight, as Java producers and idempotent ones have it: a broker that is slow to sync gets
# larger batches then instead of an ever longer queue.
LOAD = ("-s", 100, "-r", 10_000, "-X", "max.in.flight.requests.per.connection=5")
PARTITIONS = 10


def prepare(lab: Lab, server: Server) -> None:
    warm_up(lab, server, "e2e", PARTITIONS, *LOAD)


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server, topic = lab.server(side), lab.topics[side]
    return lab.metered_load(server, "e2e", topic, "-p", PARTITIONS, "-d", lab.seconds(60, 8), "-w", 2, *LOAD)


SCENARIOS = (
    Scenario(
        name="end-to-end",
        title="End-to-end latency, 10,000/s of 100 B, 10 partitions",
        conditions="librdkafka producer and consumer in one process, linger 5 ms, 5 in flight, 60 s",
        sides=(OURS, KAFKA_FLUSH),
        bars=(Bar("p99_us", "at most", 1.0, "REPORT", KAFKA_FLUSH),),
        measure=measure,
        prepare=prepare,
    ),
)
