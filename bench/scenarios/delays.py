"""A million delayed messages: what they cost while they wait, what kill -9 loses, how late they come."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping

from bench import meter
from bench.lab import Lab, Scenario
from bench.scenarios.queue_load import make, work
from bench.stats import OURS, Bar

PENDING, PENDING_QUICK = 1_000_000, 50_000
DUE_PER_S = 10_000
FIRST_S, FIRST_QUICK_S = (
    90.0,
    25.0,
)  # until the first is due: time to publish all, to look, and to start again
EXCHANGE = ("-x", "x-delayed-message")


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    pending = int(lab.seconds(PENDING, PENDING_QUICK))
    first_s = lab.seconds(FIRST_S, FIRST_QUICK_S)
    server = lab.launch(side)
    make(lab, server, *EXCHANGE)
    lab.settle()
    before_bytes = meter.rss_bytes(server.pid)
    begun = time.monotonic()
    schedule = ("-D", first_s * 1000, "-L", DUE_PER_S)
    sent = work(lab, server, "publish", *EXCHANGE, "-n", pending, "-d", first_s, *schedule)
    grown_mb = (meter.rss_bytes(server.pid) - before_bytes) / 1e6
    server.kill()
    again = lab.launch(side)
    early_s = first_s - (time.monotonic() - begun)
    if early_s < 1:
        raise AssertionError(
            f"publishing and starting again took {first_s - early_s:.0f} s: too slow to tell"
        )
    # Lateness counts for what is due while the consumer is there; it waits for all of them.
    wait_s = early_s + pending / DUE_PER_S + 30
    came = work(lab, again, "consume", *EXCHANGE, "-n", pending, "-v", "-d", wait_s)
    again.stop()
    shutil.rmtree(again.data)
    return {
        "grown_mb": grown_mb,
        "lost": came["lost"],
        "twice": came["twice"],
        "late_p99_ms": came["p99_us"] / 1000,
        "late_p50_ms": came["p50_us"] / 1000,
        "publish_per_s": sent["messages_per_s"],
        "restart_after_kill_s": again.ready_s,
    }


SCENARIOS = (
    Scenario(
        name="amqp-delays",
        title="1 million delayed AMQP messages, 10,000 due per second",
        conditions="x-delayed-message exchange, 100 B; memory when all are confirmed; kill -9 and a start; "
        "lateness from the time a message was due to its delivery",
        sides=(OURS,),
        bars=(
            Bar("grown_mb", "at most", 200, "MUST", unit="MB"),
            Bar("lost", "at most", 0, "MUST"),
            Bar("twice", "at most", 0, "REPORT"),
            Bar("late_p99_ms", "at most", 100, "REPORT", unit="ms"),
        ),
        measure=measure,
        queues=True,
        max_rounds=1,
    ),
)
