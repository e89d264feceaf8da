"""Produce latency while the broker does something heavy beside it, against the same when it does not."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from bench import meter, programs, wire
from bench.lab import Lab, Scenario
from bench.peers import Server
from bench.scenarios.cold import UNMERGED
from bench.stats import OURS, Bar

PARTITIONS = 16
LOAD = ("-p", PARTITIONS, "-c", 4, "-m", 64, "-R", 10, "-s", 100, "-r", 2000, "-w", 1)
BACKLOG_PARTITIONS, BACKLOG_BYTES, BACKLOG_QUICK_BYTES = 100, 1.5e9, 0.6e9
MERGE_NOW = {"MAINSTEM_MERGE__DELAY_MS": "0"}  # at its usual writing speed
SNAPSHOT_OFTEN = {"MAINSTEM_MERGE__ENABLED": "false", "MAINSTEM_SNAPSHOT__INTERVAL_MS": "1000"}
TOPICS = 10_000
NEWEST_FILES = 2  # the one that is being written, and the next


def uncache(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def produce(lab: Lab, server: Server) -> dict[str, float]:
    topic = lab.topic(server, PARTITIONS)
    return programs.run("raw", server.port, topic, "-d", lab.seconds(6, 4), *LOAD)


def produce_beside_cold_reads(lab: Lab, server: Server, backlog: str, records: int) -> dict[str, float]:
    """A consumer reads the backlog again and again, and its files leave the page cache twice a second.

    Only those: to drop all of the cache takes the producer's pages too, which no reader does.
    """
    done = threading.Event()
    finished = sorted((server.data / "data" / "files").glob("*.journal"))[:-NEWEST_FILES]

    def keep_cold() -> None:
        while not done.wait(0.5):
            for path in finished:
                uncache(path)

    for path in finished:
        uncache(path)
    options = ("-p", BACKLOG_PARTITIONS, "-n", records, "-d", lab.seconds(9, 7))
    reader = programs.start("consume", server.port, backlog, *options)
    thread = threading.Thread(target=keep_cold, daemon=True)
    thread.start()
    try:
        result = produce(lab, server)
    finally:
        done.set()
        thread.join()
        read = programs.finish(reader)
    return result | {"read_mb_per_s": read["bytes"] / read["seconds"] / 1e6}


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server = lab.launch(side, extra=UNMERGED)
    backlog = lab.topic(server, BACKLOG_PARTITIONS)
    records = int(lab.seconds(BACKLOG_BYTES, BACKLOG_QUICK_BYTES) / 1024)
    programs.run(
        "produce", server.port, backlog, "-p", BACKLOG_PARTITIONS, "-s", 1024, "-r", 1, "-n", records
    )
    lab.settle()
    quiet = produce(lab, server)
    cold = produce_beside_cold_reads(lab, server, backlog, records)
    server.stop()

    server = lab.launch(side, extra=MERGE_NOW)
    with meter.metered(server.pid) as merge_cost:
        merging = produce(lab, server)
    server.stop()

    server = lab.launch(side, extra=SNAPSHOT_OFTEN)
    with wire.Admin(server.port) as admin:
        for first in range(0, TOPICS, 1000):
            admin.create_topics([f"many-{i}" for i in range(first, first + 1000)], 1)
    lab.settle()
    snapshots = produce(lab, server)
    server.stop()
    shutil.rmtree(server.data)
    return {
        "quiet_p99_us": quiet["p99_us"],
        "cold_p99_us": cold["p99_us"],
        "merge_p99_us": merging["p99_us"],
        "snapshot_p99_us": snapshots["p99_us"],
        "cold_read_mb_per_s": cold["read_mb_per_s"],
        "merge_seen_share": merge_cost.children_seen,
        "cold_over_quiet": cold["p99_us"] / quiet["p99_us"],
        "merge_over_quiet": merging["p99_us"] / quiet["p99_us"],
        "snapshot_over_quiet": snapshots["p99_us"] / quiet["p99_us"],
    }


SCENARIOS = (
    Scenario(
        name="interference",
        title="Produce p99 beside cold reads, a merge, snapshots",
        conditions="2,000 requests/s of ten 100 B records (raw, fixed rate); quiet, then beside each",
        sides=(OURS,),
        bars=tuple(
            Bar(f"{kind}_over_quiet", "at most", 3.0, "REPORT", unit="x")
            for kind in ("cold", "merge", "snapshot")
        ),
        measure=measure,
    ),
)
