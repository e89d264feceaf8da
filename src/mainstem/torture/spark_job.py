"""The job that is tortured, a driver in a process of its own: `python -m mainstem.torture.spark_job JOB`.

Three queries read the same input: one copies it, one counts and sums by key in windows of event time, one
tells of each key and window once, when the first row comes (deduplication). Every row that they write carries
the time of its batch, which Spark keeps in its checkpoint: what a repeated batch writes is the same.

It runs until it is killed, or told to end: once the file DRAIN is there it finishes what has come so far and
says so with DRAINED; once FINISH is there it does that again and ends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipeline.session import spark_session
from mainstem.torture.spark_rows import DELAY_MS, WINDOW_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

DRAIN, DRAINED, FINISH = "drain", "drained", "finish"
SCHEMA = "id BIGINT, key STRING, amount BIGINT, at TIMESTAMP"
BATCH = "unix_millis(current_timestamp()) AS batch"
DELAY, WINDOW = f"{DELAY_MS} milliseconds", f"{WINDOW_MS} milliseconds"
LOOK_EVERY_S = 0.1
MOST_STARTS = 5


class Job(msgspec.Struct, frozen=True):
    """`folder` holds checkpoints and the files by which the job is told to end."""

    master: str
    bootstrap: str
    folder: str
    rows_per_trigger: int
    settings: dict[str, str]
    source: str = "rows"
    copies: str = "copies"
    windows: str = "windows"
    firsts: str = "firsts"
    with_firsts: bool = True

    @property
    def outputs(self) -> list[str]:
        return [self.copies, self.windows, *([self.firsts] if self.with_firsts else [])]


def run(job: Job) -> None:
    session = spark_session("mainstem torture", job.master, job.settings)
    made = {job.copies: _copy, job.windows: _in_windows, job.firsts: _firsts}
    queries = [_begin(partial(_write, job, topic, made[topic](_read(session, job)))) for topic in job.outputs]
    folder = Path(job.folder)
    for told, say in ((DRAIN, DRAINED), (FINISH, "")):
        while not (folder / told).exists():
            for query in queries:
                if not query.isActive:
                    raise RuntimeError(f"a query has ended: {query.exception()}")
            time.sleep(LOOK_EVERY_S)
        for query in queries:
            query.processAllAvailable()
        if say:
            (folder / say).touch()
    for query in queries:
        query.stop()
    session.stop()


def _read(session: SparkSession, job: Job) -> DataFrame:
    return (
        session.readStream.format("mainstem")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job.rows_per_trigger)
        .option("format", "json")
        .option("schema", SCHEMA)
        .load()
    )


def _copy(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(
        "key", f"to_json(struct(id, key, amount, unix_millis(at) AS at_ms, {BATCH})) AS value"
    )


def _in_windows(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    sums = (
        rows.withWatermark("at", DELAY)
        .groupBy("key", f.window("at", WINDOW))
        .agg(f.count("*").alias("count"), f.sum("amount").alias("amount"))
    )
    return sums.selectExpr(
        "key", f"to_json(struct(key, unix_millis(window.start) AS start_ms, count, amount, {BATCH})) AS value"
    )


def _firsts(rows: DataFrame) -> DataFrame:
    firsts = (
        rows.withWatermark("at", DELAY)
        .selectExpr("key", "at", f"unix_millis(window(at, '{WINDOW}').start) AS start_ms")
        .dropDuplicatesWithinWatermark(["key", "start_ms"])
    )
    return firsts.selectExpr("key", f"to_json(struct(key, start_ms, {BATCH})) AS value")


def _begin(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """One after the other. Spark gives a Python process ten seconds to start, whatever else the machine does,
    and ends the query if it takes longer: then it is started again."""
    for _ in range(MOST_STARTS):
        query = start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(LOOK_EVERY_S)
        if query.isActive:
            break
        print(f"a query did not start: {query.exception()}", flush=True)
    return query


def _write(job: Job, topic: str, frame: DataFrame) -> StreamingQuery:
    return (
        frame.writeStream.format("mainstem")
        .queryName(topic)
        .outputMode("append")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(Path(job.folder) / topic))
        .start()
    )


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Job))
