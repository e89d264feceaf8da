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

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import meter

ORDER = "id BIGINT, region STRING, customer STRING, amount DOUBLE, at TIMESTAMP"
# At its defaults the connector polls 500 records and seeks to both ends after each poll.
TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.receive.buffer.bytes": str(4 << 20),
}


def session(jars: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.driver.memory", "2g").config("spark.log.level", "ERROR")
    return (builder.config("spark.jars", jars) if jars else builder).getOrCreate()


def frame_of(spark: SparkSession, reader: str, job: str, address: str, topic: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic}
    if reader == "mainstem":
        typed = {"format": "json", "schema": ORDER} if job == "json" else {}
        return spark.read.format("mainstem").options(**options, **typed).load()
    tuned = TUNED if reader == "connector-tuned" else {}
    frame = spark.read.format("kafka").options(**options, **tuned).load()
    if job == "json":
        frame = frame.selectExpr(f"from_json(CAST(value AS STRING), '{ORDER}') AS o").select("o.*")
    return frame


def run(frame: DataFrame, job: str, rows: int) -> None:
    if job == "noop":
        frame.write.format("noop").mode("overwrite").save()
        return
    minutes = frame.selectExpr("window(at, '1 minute') AS minute", "region", "amount")
    sums = minutes.groupBy("minute", "region").agg({"amount": "sum", "*": "count"})
    found = sum(row["count(1)"] for row in sums.collect())
    if found != rows:
        raise SystemExit(f"{found} rows, not {rows}")


def main() -> None:
    reader, job, address, topic, rows, jars = sys.argv[1:]
    spark = session(jars)
    run(frame_of(spark, reader, job, address, topic), job, int(rows))
    # The broker's own CPU is not counted: it is the same for all readers.
    cpu_before, began = meter.cpu_s(os.getpid()), time.perf_counter()
    run(frame_of(spark, reader, job, address, topic), job, int(rows))
    seconds, cpu = time.perf_counter() - began, meter.cpu_s(os.getpid()) - cpu_before
    print(json.dumps({"rows_per_s": int(rows) / seconds, "rows_per_cpu_s": int(rows) / cpu, "cpu_s": cpu}))
    spark.stop()


main()
