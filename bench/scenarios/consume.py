"""Consume what was just written and is still in the page cache: with librdkafka, and with raw requests.

librdkafka makes an object of every record; with small ones that is all its time, whoever serves it: a sink
that sends one batch from memory again and again is no faster than Kafka then, and the bar a report. The raw
reader looks only at the heads of batches, so there the broker is the limit. A consumer at the tail: tail.py.

All runs read the same files: Mainstem's merge, which would come a minute after writing and so in the middle
of the runs, is waited for first. One batch nearly fills a fetch: Kafka fills up an answer with the beginning
of the next batch, which clients throw away, and with smaller batches that would be a share of its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench import programs, wire
from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.cold import MERGE_NOW
from bench.scenarios.produce import MOST_MB
from bench.stats import OURS, SINK, Bar

STORED_BYTES, STORED_QUICK_BYTES = 400e6, 200e6  # below the 512 MiB that Mainstem leaves in the page cache
FETCH_BYTES = 1 << 20  # of one partition: librdkafka's default, and the raw reader's
READERS = 4


def records_per_batch(record_bytes: int) -> int:
    """The most that one fetch takes whole: as many as `raw` makes of this size, with their overhead."""
    size, count = wire.BATCH_HEAD_BYTES, 0
    while (size := size + len(wire.record(count, bytes(record_bytes)))) <= FETCH_BYTES:
        count += 1
    return count


def stored_batches(lab: Lab) -> int:
    return int(lab.seconds(STORED_BYTES, STORED_QUICK_BYTES) / FETCH_BYTES)


def stored_records(lab: Lab, record_bytes: int) -> int:
    return stored_batches(lab) * records_per_batch(record_bytes)


def reader(lab: Lab, record_bytes: int, raw: bool, run_s: float) -> tuple[str, tuple[object, ...]]:
    """The load program and its options."""
    options = ("-n", stored_records(lab, record_bytes), "-d", run_s)
    return ("raw_fetch", (*options, "-c", READERS, "-s", record_bytes)) if raw else ("consume", options)


def prepare(lab: Lab, server: Server, record_bytes: int, raw: bool) -> None:
    """Writes what all runs read, in the same batches on every side, then reads it for the warm-up."""
    lab.topics[server.name] = topic = lab.topic(server, 1)
    batches = ("-R", records_per_batch(record_bytes), "-s", record_bytes, "-n", stored_batches(lab))
    programs.run("raw", server.port, topic, "-c", 4, "-m", 4, "-d", 120, *batches)
    if server.name == OURS:
        lab.wait_merged(server)
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
        conditions=f"{by}; records just written (in the page cache, merged), again and again; in batches just"
        " under the 1 MiB of a fetch, so Kafka adds less than a record's length of the next batch",
        sides=(OURS, KAFKA, SINK),
        bars=(
            Bar("records_per_s", "at least", 1.3, "MUST" if raw or record_bytes > 100 else "REPORT", KAFKA),
            Bar("records_per_s", "at least", None, "REPORT", SINK),
            Bar("cpu_s_per_gb", "at most", 0.6, "MUST", KAFKA),
            Bar("peak_rss_mb", "at most", MOST_MB, "MUST", unit="MB"),
        ),
        measure=partial(measure, record_bytes=record_bytes, raw=raw),
        prepare=partial(prepare, record_bytes=record_bytes, raw=raw),
        ours_extra=MERGE_NOW,
    )


SCENARIOS = tuple(scenario(record_bytes, raw=raw) for raw in (False, True) for record_bytes in (100, 1024))
