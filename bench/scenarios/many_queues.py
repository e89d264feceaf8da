"""100,000 queues with a binding each: declared, there again after a stop and kill -9, and their memory."""

from __future__ import annotations

import shutil
import time
import urllib.request
from collections.abc import Mapping

from bench import meter
from bench.lab import Lab, Scenario
from bench.peers import Server
from bench.scenarios.queue_load import make, work
from bench.stats import OURS, Bar

QUEUES, QUEUES_QUICK = 100_000, 5_000
CONNECTIONS = 16  # an answer comes when it is on disk, and on one channel one waits for the other


def look(lab: Lab, server: Server, queues: int) -> float:
    """Asks for each of them; one that is missing is an error."""
    return work(lab, server, "count", "-q", queues)["seconds"]


def list_all(server: Server, queues: int) -> float:
    """Seconds for a list of all of them, a line each."""
    started = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/admin/queues", timeout=60) as answer:
        lines = sum(1 for _ in answer)
    if lines != queues:
        raise AssertionError(f"{lines} of {queues} queues are in the list")
    return time.monotonic() - started


def measure(lab: Lab, side: str, _round: int) -> Mapping[str, float]:
    queues = int(lab.seconds(QUEUES, QUEUES_QUICK))
    server = lab.launch(side)
    make(lab, server)  # whatever the first one costs is not a queue's share
    lab.settle()
    before_bytes = meter.rss_bytes(server.pid)
    make_s = make(lab, server, "-q", queues, "-x", "direct", "-c", CONNECTIONS)
    look_s = look(lab, server, queues)
    lab.settle()
    grown_bytes = meter.rss_bytes(server.pid) - before_bytes
    server.stop()
    again = lab.launch(side)
    look(lab, again, queues)
    again.kill()
    killed = lab.launch(side)
    look(lab, killed, queues)
    list_s = list_all(killed, queues)
    # By their bindings, which must be there again too.
    sent = work(lab, killed, "publish", "-q", queues, "-x", "direct", "-n", queues, "-d", 300)
    kept = work(lab, killed, "count", "-q", queues)["messages"]
    killed.stop()
    shutil.rmtree(killed.data)
    if kept != queues:
        raise AssertionError(f"{queues} messages were confirmed, {kept:.0f} are in the queues")
    return {
        "bytes_per_queue": grown_bytes / queues,
        "declare_s": make_s,
        "restart_s": again.ready_s,
        "restart_after_kill_s": killed.ready_s,
        "ask_each_s": look_s,
        "list_s": list_s,
        "publish_per_s": sent["messages_per_s"],
    }


SCENARIOS = (
    Scenario(
        name="amqp-many-queues",
        title="100,000 AMQP queues with a binding each",
        conditions="declared and bound by 16 clients; stopped, started; kill -9, started; each time "
        "every one is asked for by a passive declare; listed over http; then 100,000 messages by random keys",
        sides=(OURS,),
        bars=(
            Bar("bytes_per_queue", "at most", 4096, "REPORT", unit="B"),
            Bar("declare_s", "at most", None, "REPORT", unit="s"),
            Bar("list_s", "at most", None, "REPORT", unit="s"),
            Bar("restart_s", "at most", None, "REPORT", unit="s"),
            Bar("restart_after_kill_s", "at most", None, "REPORT", unit="s"),
        ),
        measure=measure,
        queues=True,
        max_rounds=1,
    ),
)
