"""How topics are doing: rates, sizes, keys and latency for each window of time, as messages, a table and a
picture.

Spark keeps the windows and gives those that changed with each batch. The driver publishes them once for each
batch, as the sink does, and draws what it knows of the recent past. On a start that comes from the topic.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.counting import Tally
from mainstem.pipeline.jobs import Job, JobOption, JobRun
from mainstem.pipeline.jobs.lake_options import (
    ISOLATION_HELP,
    flag,
    isolation,
    local_folder,
    names,
    seconds,
    subscription,
    whole,
)
from mainstem.pipeline.jobs.query_id import query_of_batch
from mainstem.pipeline.jobs.stats_plot import draw
from mainstem.pipeline.jobs.stats_rows import (
    History,
    WindowStats,
    check_table,
    decode,
    encode,
    window_stats,
    write_table,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StreamingQuery

MOST_TOLD = 100_000  # messages of an earlier run that are looked at: some 30 MB
OPTIONS = (
    JobOption("topic", "the topic, or several with commas"),
    JobOption("pattern", "a regular expression of topics, instead of topic"),
    JobOption("into", "the topic of the results; <topic>-stats if one topic is named"),
    JobOption("window", "how long a window is", default="1 minute"),
    JobOption(
        "event_time", "the field of JSON values that says when it happened, for latency; a.b for one inside"
    ),
    JobOption("late", "how long a window waits for records that come late", default="10 minutes"),
    JobOption("every", "the time between batches while it runs", default="10 seconds"),
    JobOption(
        "path", "a .csv or .parquet file of the recent past, one row for each topic and window", is_path=True
    ),
    JobOption("plot", "a .png of it", is_path=True),
    JobOption("keep", "how much of the past the file and the picture show", default="1 day"),
    JobOption("starting_offsets", "earliest, latest, or JSON", default="earliest"),
    JobOption("max_records", "how many records a batch has at most", default="1000000"),
    JobOption("fail_on_data_loss", "end if records are gone before they were read", default="true"),
    JobOption("isolation", ISOLATION_HELP, default="read_committed"),
)


def check(options: Mapping[str, str]) -> None:
    subscription(options)
    into_of(options)
    for name in ("window", "late", "every", "keep"):
        if seconds(name, options[name]) < 1:
            raise InvalidRequest(f"{name} is a second or more, not {options[name]!r}")
    whole("max_records", options["max_records"], 1)
    flag("fail_on_data_loss", options["fail_on_data_loss"])
    isolation(options)
    if options.get("path"):
        check_table(local_folder("path", options["path"]))
    if options.get("plot") and not local_folder("plot", options["plot"]).endswith(".png"):
        raise InvalidRequest(f"plot is a file that ends in .png, not {options['plot']!r}")


def into_of(options: Mapping[str, str]) -> str:
    topics, into = names(options.get("topic", "")), options.get("into", "").strip()
    if not into and len(topics) != 1:
        raise InvalidRequest("into is missing: the topic of the results")
    if into and into in topics:
        raise InvalidRequest(f"into is {into!r}, which is read too: results of results would have no end")
    return into or f"{topics[0]}-stats"


def start(run: JobRun) -> list[StreamingQuery]:
    check(run.options)
    given, into = run.options, into_of(run.options)
    options = {
        **run.broker,
        **subscription(given),
        "columns": "topic,key,value,timestamp",
        "startingOffsets": given["starting_offsets"],
        "maxOffsetsPerTrigger": given["max_records"],
        "failOnDataLoss": given["fail_on_data_loss"],
        "isolationLevel": isolation(given),
    }
    records = run.spark.readStream.format("mainstem").options(**options).load().where(_not(into))
    outputs = Outputs(
        into,
        Path(local_folder("path", given["path"])) if given.get("path") else None,
        Path(local_folder("plot", given["plot"])) if given.get("plot") else None,
    )
    history = History(seconds("keep", given["keep"]))
    history.add(_told_before(run, into, seconds("keep", given["keep"])))
    writer = windows_of(records, given).writeStream.outputMode("update")
    writer = writer.foreachBatch(Reporter(run.broker, outputs, history, run.tally))
    writer = writer.queryName(run.name).option("checkpointLocation", run.checkpoint)
    often = {"processingTime": f"{seconds('every', given['every']):g} seconds"}
    return [writer.trigger(**(run.trigger if run.once else often)).start()]


def _not(topic: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("topic") != topic


def windows_of(records: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """One row for each topic and window."""
    from pyspark.sql import functions as F

    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    latency = _latency_ms(options["event_time"]) if options.get("event_time") else F.lit(None).cast("bigint")
    rows = records.select("topic", "key", "timestamp", size.alias("size"), latency.alias("latency_ms"))
    width = f"{seconds('window', options['window']):g} seconds"
    late = f"{seconds('late', options['late']):g} seconds"
    grouped = rows.withWatermark("timestamp", late).groupBy("topic", F.window("timestamp", width))
    percents = [0.5, 0.99]
    counted = grouped.agg(
        F.count("*").alias("rows"),
        F.sum("size").alias("bytes"),
        F.percentile_approx("size", percents).alias("sizes"),
        F.max("size").alias("size_max"),
        F.approx_count_distinct("key").alias("keys"),
        F.percentile_approx("latency_ms", percents).alias("latencies"),
        F.max("latency_ms").alias("latency_max_ms"),
    )
    start, end = F.unix_micros("window.start").alias("start_us"), F.unix_micros("window.end").alias("end_us")
    return counted.select("*", start, end).drop("window")


def _latency_ms(path: str) -> Column:
    """From the time in the value (text in ISO form, or a number of seconds, milli- or microseconds)."""
    from pyspark.sql import functions as F

    inside = "".join(f"['{name}']" for name in path.strip().split("."))
    text = F.get_json_object(F.col("value").cast("string"), f"${inside}")
    number = text.try_cast("double")
    # Seconds of today have 10 digits before the point, milliseconds 13, microseconds 16.
    of_number = F.when(number > 1e14, number / 1000).when(number > 1e11, number).otherwise(number * 1000)
    of_text = F.unix_millis(text.try_cast("timestamp"))
    at_ms = F.when(number.isNotNull(), of_number.cast("bigint")).otherwise(of_text)
    return F.unix_millis("timestamp") - at_ms


def _told_before(run: JobRun, into: str, keep_s: float) -> Sequence[WindowStats]:
    """What an earlier run has published, for the picture: the newest, and no more than a driver holds."""
    from pyspark.sql import functions as F

    from mainstem.client.client import Client
    from mainstem.client.patience import patiently
    from mainstem.model.errors import UnknownTopic
    from mainstem.spark.connecting import patience_s, settings_of
    from mainstem.spark.options import Options

    broker = Options(run.broker)
    with Client(settings_of(broker)) as client:
        try:
            patiently(lambda: client.topic(into), patience_s(broker))
        except UnknownTopic:
            return []
    since_ms = int((time.time() - keep_s) * 1000)  # noqa: TID251 - of records in a topic
    options = {
        **run.broker,
        "subscribe": into,
        "columns": "value,timestamp,offset",
        "startingTimestamp": str(since_ms),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    told = run.spark.read.format("mainstem").options(**options).load().where("value IS NOT NULL")
    # A window's messages have one key, so they are in one partition, where offsets tell which is the last.
    rows = told.orderBy(F.desc("timestamp"), F.desc("offset")).limit(MOST_TOLD).collect()
    found = (decode(bytes(row.value)) for row in reversed(rows))
    return [one for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class Outputs:
    topic: str
    table: Path | None
    plot: Path | None


class Reporter:
    """Called for each batch, in a thread of Spark's on the driver."""

    def __init__(self, broker: Mapping[str, str], outputs: Outputs, history: History, tally: Tally) -> None:
        self._broker = dict(broker)
        self._tally = tally
        self._outputs = outputs
        self._history = history

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        query = query_of_batch(batch.sparkSession)
        windows = sorted((window_stats(row.asDict()) for row in batch.collect()), key=lambda one: one.key)
        self._publish(f"spark-{query}", batch_id, windows)
        self._tally.wrote(batch_id, len(windows))
        self._history.add(windows)
        past = self._history.windows()
        if not past:
            return
        if self._outputs.table:
            write_table(self._outputs.table, past)
        if self._outputs.plot:
            draw(past, self._outputs.plot)

    def _publish(self, sink: str, batch_id: int, windows: Sequence[WindowStats]) -> None:
        """As the sink `mainstem` does: a batch that is repeated is not written again."""
        from mainstem.client import sinks
        from mainstem.client.client import Client
        from mainstem.client.cluster import TopicPartition
        from mainstem.client.patience import patiently
        from mainstem.client.producing import partition_of
        from mainstem.model.records import Record, encode_batch
        from mainstem.spark.connecting import patience_s, settings_of
        from mainstem.spark.options import Options

        options = Options(self._broker)
        waits_s = patience_s(options)
        with Client(settings_of(options)) as client:
            patiently(lambda: sinks.prepare(client), waits_s)
            into = patiently(lambda: client.topic(self._outputs.topic, create=True), waits_s)
            count = len(into.partitions)
            records: dict[TopicPartition, list[Record]] = {}
            now_ms = int(time.time() * 1000)  # noqa: TID251 - records get the time at which they are written
            for one in windows:
                key = one.key.encode()
                place = TopicPartition(self._outputs.topic, partition_of(key, count))
                records.setdefault(place, []).append(Record(0, now_ms, key, encode(one)))
            staged: dict[TopicPartition, Any] = {
                place: [sinks.stage(client, encode_batch(some), waits_s)] for place, some in records.items()
            }
            sinks.publish(client, sink, batch_id, staged, waits_s)


JOB = Job(
    help="rates, sizes, keys and latency of topics per window, as messages, a table and a picture",
    options=OPTIONS,
    start=start,
    check=check,
    makes=lambda options, topic: topic == into_of(options),
)
