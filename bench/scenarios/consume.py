"""Consume what was just written and is still in the page cache: with librdkafka, and with raw requests.

librdkafka makes an object of every record; with small ones that is all its time, whoever serves it. The raw
reader looks only at the heads of batches, so there the broker is the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench import programs
from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.produce import MOST_MB
from bench.scenarios.produce_raw import load
from bench.stats import OURS, SINK, Bar

STORED_BYTES, STORED_QUICK_BYTES = 800e6, 300e6
BATCH_BYTES = 900_000  # about what librdkafka makes when it sends as fast as it can: its limit is 1 MB
READERS = 4


def stored_batches(lab: Lab) -> int:
    return int(lab.seconds(STORED_BYTES, STORED_QUICK_BYTES) / BATCH_BYTES)


def stored_records(lab: Lab, record_bytes: int) -> int:
    return stored_batches(lab) * (BATCH_BYTES // record_bytes)


def reader(lab: Lab, record_bytes: int, raw: bool, run_s: float) -> tuple[str, tuple[object, ...]]:
    """The load program and its options."""
    options = ("-n", stored_records(lab, record_bytes), "-d", run_s)
    return ("raw_fetch", (*options, "-c", READERS, "-s", record_bytes)) if raw else ("consume", options)


def prepare(lab: Lab, server: Server, record_bytes: int, raw: bool) -> None:
    """Writes what all runs read, in the same batches on every side, then reads it for the warm-up."""
    lab.topics[server.name] = topic = lab.topic(server, 1)
    written = ("-d", 120, "-n", stored_batches(lab))
    programs.run("raw", server.port, topic, *load(record_bytes, BATCH_BYTES), *written)
    program, options = reader(lab, record_bytes, raw, lab.seconds(15, 3))
    programs.run(program, server.port, topic, *options)


def measure(lab: Lab, side: str, _round: int, *, record_bytes: int, raw: bool) -> Mapping[str, float]:
    program, options = reader(lab, record_bytes, raw, lab.seconds(5, 3))
    return lab.metered_load(lab.server(side), program, lab.topics[side], *options)


def scenario(record_bytes: int, *, raw: bool) -> Scenario:
    by = f"raw requests, {READERS} connections" if raw else "librdkafka, one consumer"
    return Scenario(
        name=f"consume-{'raw-' if raw else ''}{'1k' if record_bytes == 1024 else '100b'}",
        title=f"Consume {record_bytes} B,{' raw requests,' if raw else ''} 1 partition",
        conditions=f"{by}; records just written (in the page cache), in batches of 900 KB, again and again",
        sides=(OURS, KAFKA, SINK),
        bars=(
            Bar("records_per_s", "at least", 1.3, "MUST", KAFKA),
            Bar("records_per_s", "at least", None, "REPORT", SINK),
            Bar("cpu_s_per_gb", "at most", 0.6, "MUST", KAFKA),
            Bar("peak_rss_mb", "at most", MOST_MB, "MUST", unit="MB"),
        ),
        measure=partial(measure, record_bytes=record_bytes, raw=raw),
        prepare=partial(prepare, record_bytes=record_bytes, raw=raw),
    )


SCENARIOS = tuple(scenario(record_bytes, raw=raw) for raw in (False, True) for record_bytes in (100, 1024))
