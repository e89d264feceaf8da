"""From publishing to delivery at a rate that both take with ease."""

from __future__ import annotations

from collections.abc import Mapping

from bench.lab import RABBITMQ, Lab, Scenario
from bench.peers import Server
from bench.scenarios.queue_load import NAME, make, warm_up
from bench.stats import OURS, Bar

LOAD = ("-s", 100, "-r", 5000, "-B", 1)


def prepare(lab: Lab, server: Server) -> None:
    make(lab, server)
    warm_up(lab, server, "both", 1, *LOAD)


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    options = ("-m", "both", "-d", lab.seconds(30, 5), "-w", lab.seconds(2, 1), *LOAD)
    return lab.metered_load(lab.server(side), "amqp_raw", NAME, *options)


SCENARIOS = (
    Scenario(
        name="amqp-latency",
        title="AMQP publish to deliver, 5,000/s of 100 B",
        conditions="raw, one message a send, at fixed times; from when a message was due; durable, confirmed",
        sides=(OURS, RABBITMQ),
        bars=(
            Bar("p99_us", "at most", 1.0, "REPORT", RABBITMQ),
            Bar("p50_us", "at most", None, "REPORT", RABBITMQ),
        ),
        measure=measure,
        prepare=prepare,
        queues=True,
    ),
)
