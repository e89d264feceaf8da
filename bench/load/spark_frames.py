"""What Spark jobs of the bench share: a session, a topic as rows, and how many rows a job really read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mainstem.spark.interpreter import worker_python

HERE = str(Path(__file__).parent)
ORDER = "id BIGINT, region STRING, customer STRING, amount DOUBLE, at TIMESTAMP"
# At its defaults the connector polls 500 records and seeks to both ends after each poll.
TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
}
TUNED_SINK = {"kafka.linger.ms": "20", "kafka.batch.size": str(128 << 10)}


def session(jars: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = worker_python()  # as our own commands have it
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.memory", "2g").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    # Rows of Python sources come by a shorter way than TCP; it is as our own commands have it.
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    # Workers find it by their path.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
    builder = builder.config("spark.python.daemon.module", "counting_daemon")
    return (builder.config("spark.jars", jars) if jars else builder).getOrCreate()


def frame_of(
    spark: SparkSession,
    reader: str,
    address: str,
    topic: str,
    *,
    typed: bool,
    stream: Mapping[str, str] | None = None,
) -> DataFrame:
    """A topic from its beginning; `stream` are the options of an endless read, None is a batch."""
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, **(stream or {})}
    read = spark.read if stream is None else spark.readStream
    if reader == "mainstem":
        if typed:
            options |= {"format": "json", "schema": ORDER}
        return read.format("mainstem").options(**options).load()
    if reader == "connector-tuned":
        options |= TUNED
    frame = read.format("kafka").options(**options).load()
    if typed:
        frame = frame.selectExpr(f"from_json(CAST(value AS STRING), '{ORDER}') AS o").select("o.*")
    return frame


@contextmanager
def counted(spark: SparkSession, rows: int) -> Iterator[None]:
    """Fails unless the scans of the block read so many rows. Spark counts them anyway: it costs nothing."""
    store = spark._jsparkSession.sharedState().statusStore()
    before = store.executionsCount()
    yield
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found = sum(_scanned(store, number) for number in range(before, store.executionsCount()))
    if found != rows:
        raise ValueError(f"{found} rows were read, not {rows}")


def _scanned(store: Any, number: int) -> int:
    """Rows out of the scans of one execution. Scala's own collections, so no loops."""
    execution = store.executionsList(number, 1).apply(0).executionId()
    nodes, values = store.planGraph(execution).allNodes(), store.executionMetrics(execution)
    found = 0
    for node in (nodes.apply(i) for i in range(nodes.size())):
        for metric in (node.metrics().apply(i) for i in range(node.metrics().size())):
            value = values.get(metric.accumulatorId())
            if "Scan" in node.name() and metric.name() == "number of output rows" and value.isDefined():
                found += int(value.get().replace(",", ""))
    return found
