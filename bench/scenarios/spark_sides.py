"""Who runs in Spark's scenarios, and one run of a session that is kept for its side."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from bench import machine, meter
from bench.lab import Lab, say
from bench.peers import spark_connector, spark_python
from bench.settle import is_disturbed
from bench.spark import Session
from bench.stats import OURS

CONNECTOR, TUNED = (
    "connector",
    "connector-tuned",
)  # Spark's own, at its defaults and as fast as we could make it
OURS_OLDER = f"mainstem-on-{spark_python.VERSION}"  # in the Spark that the connector streams on


def session_of(lab: Lab, side: str, *, older: bool) -> tuple[Session, bool]:
    """The side's session, and whether it is new. `older`: the connector runs in the Spark it was made for."""
    session = lab.kept.get(side)
    if isinstance(session, Session):
        return session, False
    in_older = side == OURS_OLDER or (older and side != OURS)
    if in_older and not spark_python.HOME.exists():
        say(f"  PySpark {spark_python.VERSION} is fetched, once")
    python = spark_python.python() if in_older else sys.executable
    version = spark_python.VERSION if in_older else machine.installed("pyspark")
    jars = spark_connector.jars() if side in (CONNECTOR, TUNED) else ""
    session = Session(python, version, jars, lab.root / side / "broker.log")
    lab.kept[side] = session
    return session, True


def run(lab: Lab, side: str, session: Session, task: Mapping[str, object]) -> dict[str, float]:
    """One run that counts, marked if the idle sessions of other sides took from it."""
    settled = lab.settle()
    idle, broker = [one.pid for one in lab.kept.values() if one is not session], lab.server(OURS).pid
    before, broker_before, began = sum(map(meter.cpu_s, idle)), meter.cpu_s(broker), time.monotonic()
    figures = session.run(task_for(lab, side, task))
    stolen_s, run_s = sum(map(meter.cpu_s, idle)) - before, time.monotonic() - began
    figures["broker_cpu_s"] = meter.cpu_s(broker) - broker_before
    marks = {"idle_cpu_s": stolen_s, "disturbed": float(is_disturbed(stolen_s, run_s))}
    return figures | settled.metrics() | marks


def task_for(lab: Lab, side: str, task: Mapping[str, object]) -> dict[str, object]:
    reader = OURS if side == OURS_OLDER else side
    address = f"127.0.0.1:{lab.server(OURS).port}"
    return {"reader": reader, "address": address, "folder": str(lab.root), **task}
