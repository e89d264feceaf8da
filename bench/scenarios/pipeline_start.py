"""From `mainstem pipeline run` to the first record in its output topic: mostly the start of Spark.

Spark's JVM starts sooner with an archive of its classes, which the first short command (`mainstem sql`)
leaves in the user's cache. Both are measured: with the archive, and in an empty cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import programs
from bench.lab import Lab, Scenario
from bench.peers import Server
from bench.stats import OURS, Bar
from bench.topics import BATCH_ROWS, client_of, fill, held
from mainstem.client import admin

MAINSTEM = (sys.executable, "-c", "from mainstem.cli.main import main; main()")
FRESH = "mainstem-empty-cache"
ORDERS = "orders"
LIMIT_S, POLL_S = 300.0, 0.02
PIPELINE = """
CREATE STREAM orders (id BIGINT, region STRING, customer STRING, amount DOUBLE, at TIMESTAMP)
  WITH (topic = '{orders}', format = 'json');
CREATE STREAM dear WITH (topic = '{to}', format = 'json', key = 'region') AS
  SELECT id, region, amount FROM orders WHERE amount >= 250;
"""
DEAR_ROWS = BATCH_ROWS // 2  # amounts go from 0 to 499 and begin again


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(cache)}


def warm_cache(lab: Lab, server: Server) -> Path:
    """A cache in which a short command has left the archive; made once."""
    cache = lab.root / "cache"
    if not cache.exists():
        query = ("sql", f"select count(*) from {ORDERS}", "--bootstrap", f"127.0.0.1:{server.port}")
        done = subprocess.run(
            [*MAINSTEM, *query], env=environment(cache), capture_output=True, text=True, timeout=LIMIT_S
        )
        if done.returncode:
            raise programs.LoadFailed(f"mainstem sql: {done.stderr.strip()[-1000:]}")
        deadline = time.monotonic() + LIMIT_S
        while not list(cache.glob("*/*.jsa")):  # its JVM goes on writing when the command has ended
            if time.monotonic() > deadline:
                raise TimeoutError(f"no archive of classes after {LIMIT_S:.0f} s")
            time.sleep(POLL_S)
    return cache


def measure(lab: Lab, side: str, round_number: int) -> Mapping[str, float]:
    server = lab.server(OURS)
    if OURS not in lab.topics:
        lab.topics[OURS] = ORDERS
        fill(server, ORDERS, BATCH_ROWS, None)
    to = f"dear-{side}-{round_number}"
    folder = lab.root / to
    cache = warm_cache(lab, server) if side == OURS else folder / "cache"
    folder.mkdir()
    (folder / "dear.sql").write_text(PIPELINE.format(orders=ORDERS, to=to))
    lab.settle()
    options = (
        "--once",
        "--bootstrap",
        f"127.0.0.1:{server.port}",
        "--checkpoints",
        str(folder / "checkpoints"),
    )
    figures = timed(server, to, [*MAINSTEM, "pipeline", "run", str(folder / "dear.sql"), *options], cache)
    if held(server, to) != DEAR_ROWS:
        raise programs.LoadFailed(f"{to} holds {held(server, to)} rows, not {DEAR_ROWS}")
    return figures


def timed(server: Server, to: str, command: Sequence[str], cache: Path) -> dict[str, float]:
    """Seconds until the first record lies in the topic, and until the command has ended."""
    with client_of(server) as client, (cache.parent / f"{to}.log").open("wb") as log:
        admin.create_topic(client, to, 1)
        client.topic(to)
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment(cache), stdout=log, stderr=log)
        try:
            first_s = None
            while first_s is None and process.poll() is None and time.perf_counter() - began < LIMIT_S:
                if any(end for _, end in client.bounds([to]).values()):
                    first_s = time.perf_counter() - began
                else:
                    time.sleep(POLL_S)
            code = process.wait(LIMIT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        done_s = time.perf_counter() - began
    if code or first_s is None:
        tail = Path(log.name).read_text(errors="replace").strip()[-1000:]
        raise programs.LoadFailed(f"mainstem pipeline run ended with {code}, first record {first_s}: {tail}")
    return {"first_output_s": first_s, "done_s": done_s}


SCENARIOS = (
    Scenario(
        name="pipeline-start",
        title="`mainstem pipeline run` to its first output",
        conditions=f"process start to the first record in the output topic, of {BATCH_ROWS:,} JSON orders; "
        f"--once, local[*], a new checkpoint; {FRESH}: without the archive of Spark's classes that an "
        "earlier `mainstem sql` leaves",
        sides=(OURS, FRESH),
        bars=(
            Bar("first_output_s", "at most", None, "REPORT", unit="s"),
            Bar("done_s", "at most", None, "REPORT", unit="s"),
            Bar("first_output_s", "at most", None, "REPORT", FRESH),
        ),
        measure=measure,
    ),
)
