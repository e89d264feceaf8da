"""One message to 100 queues: how fast it is confirmed, and how fast 100 consumers ack their copies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench.lab import RABBITMQ, Lab, Scenario
from bench.peers import Server
from bench.scenarios.queue_load import NAME, empty, make, warm_up
from bench.stats import OURS, Bar

QUEUES = 100
EXCHANGE = ("-q", QUEUES, "-x", "fanout")


def prepare(lab: Lab, server: Server) -> None:
    make(lab, server, *EXCHANGE)
    warm_up(lab, server, "both", QUEUES, "-x", "fanout", "-c", QUEUES)


def measure(lab: Lab, side: str, _round: int, *, mode: str) -> Mapping[str, float]:
    """The window of 1,000 is 100,000 copies: it takes RabbitMQ seconds to get into a steady state."""
    server = lab.server(side)
    options = ("-m", mode, *EXCHANGE, "-c", QUEUES, "-d", lab.seconds(10, 4), "-w", lab.seconds(5, 2))
    again = partial(empty, lab, server, QUEUES)
    result = lab.metered_load(server, "amqp_raw", NAME, *options, before=again)
    again()
    return result


def scenario(mode: str, metric: str, least: float, title: str) -> Scenario:
    return Scenario(
        name=f"amqp-fan-out-{mode}",
        title=f"AMQP fan-out of 100 B to {QUEUES} queues, {title}",
        conditions="fanout exchange, durable queues, persistent messages, 1,000 unconfirmed, 64 a send; "
        "consumers: a connection each, prefetch 1,000, every delivery acked by itself",
        sides=(OURS, RABBITMQ),
        bars=(
            Bar(metric, "at least", least, "MUST", RABBITMQ),
            Bar(metric, "at least", 8.0, "REPORT", RABBITMQ),
        ),
        measure=partial(measure, mode=mode),
        prepare=prepare,
        queues=True,
    )


SCENARIOS = (
    scenario("publish", "confirmed_per_s", 5.0, "messages confirmed"),
    scenario("both", "acked_per_s", 4.0, f"deliveries acked by {QUEUES} consumers meanwhile"),
)
