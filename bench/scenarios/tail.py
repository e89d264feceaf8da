"""Consume from the tail: a consumer at the end of a topic that a producer writes as fast as it can.

What counts is what the consumer got; `kept_up` is its rate as a share of the producer's. On a small machine
the two clients need most of it, and what a broker leaves them decides. How fast a broker serves what it has
stored is asked in consume.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from bench import programs
from bench.lab import KAFKA, Lab, Scenario
from bench.peers import Server
from bench.scenarios.produce import MOST_MB, run_s
from bench.scenarios.warm import WARM_QUICK_S, WARM_S
from bench.stats import OURS, Bar

LEAD_S, REST_S = 0.5, 1.0  # the producer begins earlier and ends later than the consumer


@contextmanager
def producing(
    lab: Lab, server: Server, record_bytes: int, seconds: float, result: dict[str, float]
) -> Iterator[None]:
    """For so long after the block began, and a little more. What the producer reached goes into `result`."""
    options = ("-s", record_bytes, "-d", LEAD_S + seconds + REST_S)
    producer = programs.start("produce", lab.port(server), lab.topics[server.name], *options)
    try:
        time.sleep(LEAD_S)
        yield
        if producer.poll() is not None:
            raise programs.LoadFailed("the producer ended before the consumer")
    finally:
        result["produced_per_s"] = programs.finish(producer)["records_per_s"]


def prepare(lab: Lab, server: Server, record_bytes: int) -> None:
    lab.topics[server.name] = topic = lab.topic(server, 1)
    seconds = lab.seconds(WARM_S, WARM_QUICK_S)
    with producing(lab, server, record_bytes, seconds, {}):
        programs.run("consume", lab.port(server), topic, "-e", "-d", seconds)
    lab.empty(server, topic, 1)


def measure(lab: Lab, side: str, _round: int, *, record_bytes: int) -> Mapping[str, float]:
    server = lab.server(side)
    topic, seconds = lab.topics[side], run_s(lab, record_bytes)
    produced: dict[str, float] = {}
    result = lab.metered_load(
        server,
        "consume",
        topic,
        "-e",
        "-d",
        seconds,
        before=partial(lab.empty, server, topic, 1),
        beside=partial(producing, lab, server, record_bytes, seconds, produced),
    )
    del result["cpu_s_per_gb"]  # of what was consumed, but it was for the producer too
    kept_up = result["records_per_s"] / produced["produced_per_s"]
    return result | produced | {"kept_up": kept_up}


def scenario(record_bytes: int) -> Scenario:
    return Scenario(
        name=f"tail-{'1k' if record_bytes == 1024 else '100b'}",
        title=f"Consume {record_bytes} B from the tail, while they are produced",
        conditions="librdkafka, one producer (acks=all, its default batching) as fast as it can, and one"
        " consumer that begins at the end; 1 partition; counted is what the consumer got in its time",
        sides=(OURS, KAFKA),
        bars=(
            Bar("records_per_s", "at least", 1.3, "MUST", KAFKA),
            Bar("kept_up", "at least", None, "REPORT"),
            Bar("peak_rss_mb", "at most", MOST_MB, "MUST", unit="MB"),
        ),
        measure=partial(measure, record_bytes=record_bytes),
        prepare=partial(prepare, record_bytes=record_bytes),
    )


SCENARIOS = tuple(scenario(record_bytes) for record_bytes in (100, 1024))
