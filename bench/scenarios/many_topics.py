"""100,000 topics in one broker: made, written, listed, and there again after a restart."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping

from bench import meter, wire
from bench.lab import Lab, Scenario
from bench.stats import OURS, Bar

TOPICS, TOPICS_QUICK = 100_000, 10_000
AT_ONCE = 1000


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    topics = int(lab.seconds(TOPICS, TOPICS_QUICK))
    server = lab.launch(side)
    empty_mb = meter.rss_bytes(server.pid) / 1e6
    chunks = [[f"many-{i}" for i in range(first, first + AT_ONCE)] for first in range(0, topics, AT_ONCE)]
    marks = [time.monotonic()]
    with wire.Admin(server.port) as admin:
        for chunk in chunks:
            admin.create_topics(chunk, 1)
        marks.append(time.monotonic())
        for chunk in chunks:
            admin.produce_one_each(chunk, b"x" * 100)
        marks.append(time.monotonic())
        listed_bytes = admin.list_topics_bytes()
        marks.append(time.monotonic())
    full_mb, peak_mb = meter.rss_bytes(server.pid) / 1e6, meter.peak_bytes(server.pid) / 1e6
    server.stop()
    again = lab.launch(side)
    again.kill()
    killed = lab.launch(side)
    with wire.Admin(killed.port) as admin:
        still_bytes = admin.list_topics_bytes()
    killed.stop()
    shutil.rmtree(killed.data)
    if listed_bytes < topics * 20 or still_bytes != listed_bytes:
        raise AssertionError("the list of topics is not complete")
    return {
        "create_s": marks[1] - marks[0],
        "write_each_s": marks[2] - marks[1],
        "list_s": marks[3] - marks[2],
        "rss_mb": full_mb,
        "peak_rss_mb": peak_mb,
        "bytes_per_topic": (full_mb - empty_mb) * 1e6 / topics,
        "restart_s": again.ready_s,
        "restart_after_kill_s": killed.ready_s,
    }


SCENARIOS = (
    Scenario(
        name="many-topics",
        title="100,000 topics: memory and restart",
        conditions="made 1,000 a request, one 100 B record in each; stopped, started; kill -9, started",
        sides=(OURS,),
        bars=(
            Bar("restart_s", "at most", None, "REPORT", unit="s"),
            Bar("rss_mb", "at most", None, "REPORT", unit="MB"),
        ),
        measure=measure,
        max_rounds=1,
    ),
)
