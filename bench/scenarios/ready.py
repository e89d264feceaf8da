"""From starting the process to its first answer: an empty folder, and after kill -9 with much to recover."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from bench import programs, wire
from bench.lab import KAFKA, Lab, Scenario
from bench.stats import OURS, Bar

TOPICS = 10_000
# Just below the 256 MiB at which a journal file is sealed, in batches of ten records: the most to read again.
FULL_FILE_RECORDS = 2_100_000


def measure_first_start(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    """A formatted folder is part of Kafka's setup, so formatting is not counted."""
    lab.settle()
    server = lab.launch(side)
    server.stop()
    shutil.rmtree(server.data)
    return {"ready_s": server.ready_s}


def measure_after_kill(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    server = lab.launch(side)
    with wire.Admin(server.port) as admin:
        for first in range(0, TOPICS, 1000):
            admin.create_topics([f"many-{i}" for i in range(first, first + 1000)], 1)
    topic = lab.topic(server, 100)
    records = FULL_FILE_RECORDS // (10 if lab.quick else 1)
    options = ("-p", 100, "-s", 100, "-n", records, "-X", "batch.num.messages=10", "-X", "linger.ms=0")
    programs.run("produce", server.port, topic, *options)
    server.kill()
    again = lab.launch(side)
    with wire.Admin(again.port) as admin:
        ends = admin.end_offsets(topic, 100)
    again.stop()
    shutil.rmtree(again.data)
    if ends is None or sum(ends) != records:
        raise AssertionError(
            f"{records} records were acknowledged, {sum(ends or [])} are there after kill -9"
        )
    return {"ready_s": again.ready_s}


SCENARIOS = (
    Scenario(
        name="ready",
        title="Ready to serve, empty",
        conditions="from starting the process to the first answered Metadata request; formatting not counted",
        sides=(OURS, KAFKA),
        bars=(Bar("ready_s", "at most", 1 / 3, "MUST", KAFKA),),
        measure=measure_first_start,
    ),
    Scenario(
        name="ready-after-kill",
        title="Ready after kill -9, full active file, 10,000 topics",
        conditions="10,000 topics, 2.1 M records of 100 B in batches of ten, kill -9, start; all found",
        sides=(OURS,),
        bars=(Bar("ready_s", "at most", 3.0, "MUST", unit="s"),),
        measure=measure_after_kill,
        max_rounds=3,
    ),
)
