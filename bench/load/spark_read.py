"""A Spark job that reads a topic: a warm-up, then one run that counts. Prints one line of JSON.

    python spark_read.py READER JOB ADDRESS TOPIC ROWS JARS

READER is mainstem, connector (Spark's own, at its defaults) or connector-tuned; JOB is noop (all columns to
nowhere) or json (orders, typed, summed by region and minute). Every run must find ROWS rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import meter
from bench.load.spark_frames import counted, frame_of, session


def run(spark: SparkSession, reader: str, job: str, address: str, topic: str, rows: int) -> float:
    """Seconds."""
    with counted(spark, rows):
        began = time.perf_counter()
        frame = frame_of(spark, reader, address, topic, typed=job == "json")
        if job == "noop":
            frame.write.format("noop").mode("overwrite").save()
            return time.perf_counter() - began
        minutes = frame.selectExpr("window(at, '1 minute') AS minute", "region", "amount")
        sums = minutes.groupBy("minute", "region").agg({"amount": "sum", "*": "count"})
        found = sum(row["count(1)"] for row in sums.collect())
        seconds = time.perf_counter() - began
    if found != rows:
        raise SystemExit(f"{found} rows, not {rows}")
    return seconds


def main() -> None:
    reader, job, address, topic, rows, jars = sys.argv[1:]
    spark = session(jars)
    run(spark, reader, job, address, topic, int(rows))
    # The broker's own CPU is not counted: it is the same for all readers.
    cpu_before = meter.cpu_s(os.getpid())
    seconds = run(spark, reader, job, address, topic, int(rows))
    cpu = meter.cpu_s(os.getpid()) - cpu_before
    print(json.dumps({"rows_per_s": int(rows) / seconds, "rows_per_cpu_s": int(rows) / cpu, "cpu_s": cpu}))
    spark.stop()


main()
