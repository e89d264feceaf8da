"""Cold reads: one partition of 1,000 that were written evenly, with nothing in the page cache.

Before a merge Mainstem's records of a partition lie scattered over its journal files, after it in one run;
Kafka has a file for each partition from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from bench import programs
from bench.lab import KAFKA, Lab, Scenario, drop_caches
from bench.peers import Server
from bench.stats import OURS, Bar

PARTITIONS = 1000
RECORD_BYTES = 1024
RECORDS_EACH, RECORDS_EACH_QUICK = 2000, 400
READ_PARTITIONS = 8  # in one run, one after the other: a single one is over in milliseconds
UNMERGED = {"MAINSTEM_MERGE__ENABLED": "false"}
MERGE_NOW = {
    "MAINSTEM_MERGE__DELAY_MS": "0",
    "MAINSTEM_MERGE__MAX_BYTES_PER_SECOND": "-1",
    "MAINSTEM_SNAPSHOT__INTERVAL_MS": "10000",  # a file is merged once two snapshots came after it
}


def prepare(lab: Lab, server: Server, merged: bool) -> None:
    lab.topics[server.name] = topic = lab.topic(server, PARTITIONS)
    each = int(lab.seconds(RECORDS_EACH, RECORDS_EACH_QUICK))
    programs.run(
        "produce", server.port, topic, "-p", PARTITIONS, "-s", RECORD_BYTES, "-r", 1, "-n", each * PARTITIONS
    )
    if merged and server.name == OURS:  # until here merging was off; a restart with it on makes it happen now
        server.stop()
        lab.running[OURS] = server = lab.launch(OURS, extra=MERGE_NOW)
        lab.wait_merged(server)
    lab.settle()
    programs.run("consume", server.port, topic, "-f", PARTITIONS - 1, "-n", each)  # warm-up of the read path


def measure(lab: Lab, side: str, round_number: int) -> Mapping[str, float]:
    server, topic = lab.server(side), lab.topics[side]
    each = int(lab.seconds(RECORDS_EACH, RECORDS_EACH_QUICK))
    settled = lab.settle()
    drop_caches()
    total_s, first_ms = 0.0, 0.0
    for i in range(READ_PARTITIONS):
        partition = (round_number * READ_PARTITIONS + i) * 7 % (PARTITIONS - 1)
        result = programs.run("consume", server.port, topic, "-f", partition, "-n", each)
        total_s += result["seconds"]
        first_ms += result["first_ms"]
    read_mb = READ_PARTITIONS * each * RECORD_BYTES / 1e6
    first_ms /= READ_PARTITIONS
    return {"mb_per_s": read_mb / total_s, "first_ms": first_ms, "seconds": total_s, **settled.metrics()}


def scenario(merged: bool) -> Scenario:
    when = "after" if merged else "before"
    return Scenario(
        name=f"cold-{when}-merge",
        title=f"Cold consume of one of 1,000 partitions, {when} merge",
        conditions="2 GB of 1 KiB records written evenly, cache dropped; librdkafka, 8 partitions in turn",
        sides=(OURS, KAFKA),
        bars=(Bar("mb_per_s", "at least", 1.0, "REPORT", KAFKA),),
        measure=measure,
        prepare=partial(prepare, merged=merged),
        ours_extra=UNMERGED,
    )


SCENARIOS = (scenario(False), scenario(True))
