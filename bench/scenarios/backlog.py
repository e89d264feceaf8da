"""A queue that nobody reads for a while: ten million messages may cost disk, but neither memory nor speed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from bench import meter
from bench.lab import Lab, Scenario
from bench.peers import Server
from bench.scenarios.queue_load import empty, make, work
from bench.stats import OURS, Bar

BACKLOG, BACKLOG_QUICK = 10_000_000, 1_000_000
LONGEST_S = 600


def publish(lab: Lab, server: Server, messages: int) -> float:
    return work(lab, server, "publish", "-n", messages, "-d", LONGEST_S)["messages_per_s"]


def consume(lab: Lab, server: Server, messages: int) -> float:
    return work(lab, server, "consume", "-n", messages, "-d", LONGEST_S)["messages_per_s"]


def rss_mb(lab: Lab, server: Server) -> tuple[float, float]:
    """When it has nothing more to do: with the process that merges, which stays once it was needed; alone."""
    lab.settle()
    return meter.rss_bytes(server.pid) / 1e6, meter.own_rss_bytes(server.pid) / 1e6


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    backlog = int(lab.seconds(BACKLOG, BACKLOG_QUICK))
    part = backlog // 10  # what is measured, with an empty queue and with a full one
    server = lab.launch(side)
    make(lab, server)
    publish(lab, server, part)  # a warm-up
    consume(lab, server, part)
    empty(lab, server)
    before_mb = rss_mb(lab, server)
    publish_empty = publish(lab, server, part)
    one_mb = rss_mb(lab, server)
    consume_empty = consume(lab, server, part)
    empty(lab, server)
    publish(lab, server, backlog - part)
    lab.settle()
    publish_full = publish(lab, server, part)
    ten_mb = rss_mb(lab, server)
    consume_full = consume(lab, server, part)
    left = work(lab, server, "count")["messages"]
    # A consumer that goes with up to 1,000 unacked gives them back, so a few more may be left.
    if not backlog - 2 * part <= left <= backlog:
        raise AssertionError(f"{left:,.0f} messages are left of {backlog:,}")
    server.stop()
    shutil.rmtree(server.data)
    return {
        "publish_ratio": publish_full / publish_empty,
        "consume_ratio": consume_full / consume_empty,
        "grown_mb": ten_mb[0] - before_mb[0],
        "grown_1_of_10_mb": one_mb[0] - before_mb[0],
        "own_grown_mb": ten_mb[1] - before_mb[1],
        "own_ten_times_mb": ten_mb[1] - one_mb[1],
        "publish_empty_per_s": publish_empty,
        "publish_full_per_s": publish_full,
        "consume_empty_per_s": consume_empty,
        "consume_full_per_s": consume_full,
    }


SCENARIOS = (
    Scenario(
        name="amqp-backlog",
        title="AMQP with 10 million messages in the queue",
        conditions="raw, 100 B; a tenth published and consumed with an empty queue, then with a full one; "
        "memory when the broker is idle again, beside an empty queue's: with the process that merges files, "
        "which the larger backlog starts, and of the broker's own process",
        sides=(OURS,),
        bars=(
            Bar("publish_ratio", "at least", 0.7, "MUST", unit="x"),
            Bar("consume_ratio", "at least", 0.7, "MUST", unit="x"),
            Bar("grown_mb", "at most", 50, "MUST", unit="MB"),
            Bar("grown_1_of_10_mb", "at most", 50, "MUST", unit="MB"),
            Bar("own_grown_mb", "at most", None, "REPORT", unit="MB"),
            Bar("own_ten_times_mb", "at most", None, "REPORT", unit="MB"),
        ),
        measure=measure,
        queues=True,
        max_rounds=3,
    ),
)
