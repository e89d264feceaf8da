"""Topic to table: what a streaming query does with each of its batches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import InvalidRequest
from mainstem.model.logs import get_log
from mainstem.pipeline.jobs import JobRun
from mainstem.pipeline.jobs.sync_address import from_environment, hidden
from mainstem.pipeline.jobs.sync_apply import Applier, Bad, connect
from mainstem.pipeline.jobs.sync_changes import RAW, changes_of
from mainstem.pipeline.jobs.sync_table import Table, prepare
from mainstem.spark.connecting import patience_s, settings_of
from mainstem.spark.dead_letters import send
from mainstem.spark.formats import Format, check_schema
from mainstem.spark.inference import infer_ddl
from mainstem.spark.options import Options, Topics
from mainstem.spark.planning import DEAD_SUFFIX
from mainstem.spark.typed import BadRecord
from mainstem.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

events = get_log(__name__)

# Of one batch, about: it goes to the driver whole, and Spark gives up at spark.driver.maxResultSize, 1 GiB.
BATCH_BYTES = 128 << 20


def fields_of(run: JobRun) -> str:
    """The fields of the values, in Spark's words; told from the topic's values where they are not given."""
    given = run.options.get("schema", "").strip()
    return given or infer_ddl(settings_of(Options(run.broker)), Topics(names=(run.options["topic"],)))


def to_postgres(run: JobRun) -> list[StreamingQuery]:
    from pyspark.sql.types import StructType

    options = run.options
    fields = arrow_schema(StructType.fromDDL(fields_of(run)))
    format = Format(options["format"], options["delimiter"])
    check_schema(format, fields)
    keys = tuple(name.strip() for name in options.get("key", "").split(",") if name.strip())
    table = Table(options["table"], fields, keys)
    url = from_environment(options["url"], "url")
    with connect(url) as connection:
        prepare(connection, table, create=options["create"] == "true")

    batch: list[pa.Table] = []
    ready = threading.Event()  # the query has an id
    ids: list[str] = []

    def set_aside(bad: Bad) -> None:
        _dead_letters(run, batch[0], bad)

    applier = Applier(url, table, float(options["patience"]), set_aside)

    def apply(frame: DataFrame, batch_id: int) -> None:
        batch[:] = [frame.toArrow().sort_by([("partition", "ascending"), ("offset", "ascending")])]
        ready.wait()
        deletes = options["deletes"] == "true"
        applier.apply(ids[0], batch_id, lambda: changes_of(batch[0], format, fields, keys, deletes=deletes))
        batch.clear()

    query = _start(run, {"columns": ", ".join(RAW)}, apply)
    ids.append(str(query.id))
    ready.set()
    return [query]


def to_jdbc(run: JobRun) -> list[StreamingQuery]:
    """Any database, by Spark's own writer: rows are appended, and again if a batch is repeated."""
    options = run.options
    _require_driver(run, options["jdbc.driver"])
    written = {
        "url": from_environment(options["jdbc.url"], "jdbc.url"),
        "driver": options["jdbc.driver"],
        "dbtable": options["table"],
        "user": options.get("jdbc.user", ""),
        "password": from_environment(options.get("jdbc.password", ""), "jdbc.password"),
    }
    chosen = {name: value for name, value in written.items() if value}

    def append(frame: DataFrame, batch_id: int) -> None:
        # A null value is a row of nulls, and none for a table.
        frame.na.drop(how="all").write.format("jdbc").options(**chosen).mode("append").save()

    reading = {"format": options["format"], "schema": fields_of(run), "delimiter": options["delimiter"]}
    dead = options.get("dead") or options["topic"] + DEAD_SUFFIX
    events.event("rows go by JDBC", url=hidden(chosen["url"]), table=options["table"])
    return [_start(run, {**reading, "deadLetterTopic": dead}, append)]


def _start(run: JobRun, reading: dict[str, str], each: Callable[[DataFrame, int], None]) -> StreamingQuery:
    options = run.options
    stream = (
        run.spark.readStream.format("mainstem")
        .options(**run.broker)
        .options(
            subscribe=options["topic"],
            startingOffsets=options["starting"],
            maxOffsetsPerTrigger=options["max.records"],
            maxBytesPerTrigger=str(BATCH_BYTES),
            isolationLevel="read_committed",
            **reading,
        )
        .load()
    )
    writer = stream.writeStream.queryName(run.name).foreachBatch(each)
    return writer.option("checkpointLocation", run.checkpoint).trigger(**run.trigger).start()


def _require_driver(run: JobRun, driver: str) -> None:
    """Spark would say so as well, in fifty lines, when the first batch comes."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    java = run.spark.sparkContext._jvm
    try:
        java.org.apache.spark.util.Utils.classForName(driver, True, False)
    except Py4JJavaError:
        raise InvalidRequest(
            f"jdbc.driver {driver!r} is not on Spark's class path: give its jar to Spark "
            "(the setting spark.jars, or pyspark --jars)"
        ) from None


def _dead_letters(run: JobRun, batch: pa.Table, bad: Bad) -> None:
    """Before the transaction ends: if it must be done again they are sent twice, and never not at all."""
    topic = run.options["topic"]
    dead = run.options.get("dead") or topic + DEAD_SUFFIX
    by_partition: dict[int, list[BadRecord]] = {}
    for row, reason in bad:
        (one,) = batch.slice(row, 1).to_pylist()
        time_us = batch.column("timestamp")[row].value
        record = BadRecord(one["key"], one["value"], one["offset"], time_us // 1000, reason)
        by_partition.setdefault(one["partition"], []).append(record)
    options = Options(run.broker)
    with Client(settings_of(options)) as client:
        for partition, records in by_partition.items():
            told = partial(send, client, dead, TopicPartition(topic, partition), records)
            patiently(told, patience_s(options))
    events.warning("rows were refused", topic=topic, records=len(bad), sent_to=dead)
