"""Consume with librdkafka what was just written and is still in the page cache."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench import programs
from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.stats import OURS, Bar

STORED_BYTES, STORED_QUICK_BYTES = 800e6, 300e6


def stored_records(lab: Lab, record_bytes: int) -> int:
    return int(lab.seconds(STORED_BYTES, STORED_QUICK_BYTES) / record_bytes)


def prepare(lab: Lab, server: Server, record_bytes: int) -> None:
    """Writes what all runs read, then reads it a few times for the warm-up."""
    lab.topics[server.name] = topic = lab.topic(server, 1)
    records = stored_records(lab, record_bytes)
    programs.run("produce", server.port, topic, "-s", record_bytes, "-n", records)
    programs.run("consume", server.port, topic, "-n", records, "-d", lab.seconds(8, 3))


def measure(lab: Lab, side: str, _round: int, *, record_bytes: int) -> Mapping[str, float]:
    options = ("-n", stored_records(lab, record_bytes), "-d", lab.seconds(5, 3))
    return lab.metered_load(lab.server(side), "consume", lab.topics[side], *options)


def scenario(record_bytes: int) -> Scenario:
    return Scenario(
        name=f"consume-{'1k' if record_bytes == 1024 else '100b'}",
        title=f"Consume {record_bytes} B, 1 partition",
        conditions="librdkafka, one consumer, records just written (in the page cache), read again and again",
        sides=(OURS, KAFKA),
        bars=(
            Bar("records_per_s", "at least", 1.3, "MUST", KAFKA),
            Bar("cpu_s_per_gb", "at most", 0.6, "MUST", KAFKA),
            Bar("peak_rss_mb", "at most", 200, "MUST", unit="MB"),
        ),
        measure=partial(measure, record_bytes=record_bytes),
        prepare=partial(prepare, record_bytes=record_bytes),
    )


SCENARIOS = (scenario(100), scenario(1024))
