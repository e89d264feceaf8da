"""A Spark session that is kept for many runs: a task per line on stdin, its figures per line on stdout.

    python spark_session.py JARS

The first line that it prints names its PySpark. A task is a line of JSON with the fields of `Task`; it is
timed from the first word to Spark until the job has ended, so the start of a stream counts too.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import meter
from bench.load.spark_frames import TUNED_SINK, counted, frame_of, session

SHORT_READS = 5
FEED = "key STRING, value BINARY"


@dataclass(frozen=True)
class Task:
    job: str
    reader: str  # mainstem, connector (at its defaults) or connector-tuned
    address: str
    topic: str
    rows: int  # that the job must see, no more and no less
    folder: str  # for checkpoints; a sink finds the rows to write in `feed` there
    rows_per_trigger: int = 0  # 0: all that is there in one


Figures = dict[str, float]


def batch(spark: SparkSession, task: Task) -> Figures:
    """All columns to nowhere."""
    with counted(spark, task.rows):
        frame = frame_of(spark, task.reader, task.address, task.topic, typed=False)
        frame.write.format("noop").mode("overwrite").save()
    return {}


def short(spark: SparkSession, task: Task) -> Figures:
    """The same of a topic that holds little, some times: what a read costs however little there is."""
    seconds = []
    for _ in range(SHORT_READS):
        began = time.perf_counter()
        batch(spark, task)
        seconds.append(time.perf_counter() - began)
    return {"read_s": median(seconds)}


def stream(spark: SparkSession, task: Task) -> Figures:
    """All that is there, trigger by trigger, to nowhere."""
    frame = streamed(spark, task, typed=False)
    return finished(frame.writeStream.format("noop"), task)


def stream_json(spark: SparkSession, task: Task) -> Figures:
    """Orders, typed, summed by region and minute. Every bench order lies within an hour: none is late."""
    orders = streamed(spark, task, typed=True).withWatermark("at", "1 hour")
    minutes = orders.selectExpr("window(at, '1 minute') AS minute", "region", "amount")
    sums = minutes.groupBy("minute", "region").agg({"amount": "sum", "*": "count"})
    writer = sums.writeStream.outputMode("update").format("memory").queryName("sums")
    figures = finished(writer, task)
    last = spark.table("sums").groupBy("minute", "region").agg({"count(1)": "max"})
    found = sum(row["max(count(1))"] for row in last.collect())
    if found != task.rows:
        raise ValueError(f"the windows hold {found} rows, not {task.rows}")
    return figures


def sink(spark: SparkSession, task: Task) -> Figures:
    """Rows of Parquet files, one file a trigger, into a topic. Whoever gave the task counts what is there."""
    feed = spark.readStream.schema(FEED).option("maxFilesPerTrigger", 1).parquet(f"{task.folder}/feed")
    ours = task.reader == "mainstem"
    writer = feed.writeStream.format("mainstem" if ours else "kafka").option("topic", task.topic)
    if task.reader == "connector-tuned":
        writer = writer.options(**TUNED_SINK)
    return finished(writer.option("kafka.bootstrap.servers", task.address), task)


JOBS: dict[str, Callable[[SparkSession, Task], Figures]] = {
    "batch": batch,
    "short": short,
    "stream": stream,
    "stream-json": stream_json,
    "sink": sink,
}


def streamed(spark: SparkSession, task: Task, *, typed: bool) -> DataFrame:
    options = {"startingOffsets": "earliest"}
    if task.rows_per_trigger:
        options["maxOffsetsPerTrigger"] = str(task.rows_per_trigger)
    return frame_of(spark, task.reader, task.address, task.topic, typed=typed, stream=options)


def checkpoint_of(task: Task) -> Path:
    return Path(task.folder) / f"checkpoint-{os.getpid()}"


def finished(writer: DataStreamWriter, task: Task) -> Figures:
    """Starts the query and waits for its end; its own count must be that of the task."""
    writer = writer.option("checkpointLocation", str(checkpoint_of(task)))
    query: StreamingQuery = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    triggers = [one for one in query.recentProgress if one["numInputRows"]]
    found = sum(one["numInputRows"] for one in triggers)
    if found != task.rows:
        raise ValueError(f"the query saw {found} rows, not {task.rows}")
    busy_s = sum(one["durationMs"]["triggerExecution"] for one in triggers) / 1000
    return {"triggers": float(len(triggers)), "trigger_rows_per_s": task.rows / busy_s}


def measured(spark: SparkSession, task: Task) -> Figures:
    cpu_before, began = meter.cpu_s(os.getpid()), time.perf_counter()
    figures = JOBS[task.job](spark, task)
    seconds, cpu = time.perf_counter() - began, meter.cpu_s(os.getpid()) - cpu_before
    shutil.rmtree(checkpoint_of(task), ignore_errors=True)  # or the next run would go on where this ended
    # The broker's own CPU is not in this.
    rates = {"rows_per_s": task.rows / seconds, "rows_per_cpu_s": task.rows / cpu}
    return {**rates, "seconds": seconds, "cpu_s": cpu, **figures}


def main() -> None:
    # Spark's JVM may print too: what it says goes to the log, and answers have a way of their own.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    spark = session(sys.argv[1])
    print(json.dumps({"pyspark": pyspark.__version__}), file=answers)
    for line in sys.stdin:
        try:
            answer: object = measured(spark, Task(**json.loads(line)))
        except Exception as e:  # told to whoever asked; the session may well go on
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=answers)
    spark.stop()


main()
