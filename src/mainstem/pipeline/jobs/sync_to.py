"""Topic to table: what a streaming query does with each of its batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import InvalidRequest
from mainstem.model.logs import get_log
from mainstem.pipeline.counting import counted
from mainstem.pipeline.jobs import JobRun
from mainstem.pipeline.jobs.sync_address import from_environment, hidden
from mainstem.pipeline.jobs.sync_apply import Applier, Refused, connect
from mainstem.pipeline.jobs.sync_changes import RAW, changes_of
from mainstem.pipeline.jobs.sync_table import Table, prepare
from mainstem.spark.connecting import patience_s, settings_of
from mainstem.spark.dead_letters import publish
from mainstem.spark.formats import Format, check_schema
from mainstem.spark.inference import infer_ddl
from mainstem.spark.options import Options, Topics
from mainstem.spark.planning import DEAD_SUFFIX
from mainstem.spark.sink import sink_of
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

    ready = threading.Event()  # the query has an id
    ids: list[str] = []
    applier = Applier(url, table, float(options["patience"]))

    def apply(frame: DataFrame, batch_id: int) -> None:
        batch = frame.toArrow().sort_by([("partition", "ascending"), ("offset", "ascending")])
        ready.wait()
        deletes = options["deletes"] == "true"
        done = applier.apply(
            ids[0], batch_id, lambda: changes_of(batch, format, fields, keys, deletes=deletes)
        )
        if done.refused:
            _dead_letters(run, batch, done.refused, ids[0], batch_id)
        run.tally.wrote(batch_id, done.rows)

    query = _start(run, _read(run, {"columns": ", ".join(RAW)}), apply)
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
        frame.write.format("jdbc").options(**chosen).mode("append").save()

    reading = {"format": options["format"], "schema": fields_of(run), "delimiter": options["delimiter"]}
    dead = options.get("dead") or options["topic"] + DEAD_SUFFIX
    events.event("rows go by JDBC", url=hidden(chosen["url"]), table=options["table"])
    # A null value is a row of nulls, and none for a table.
    rows = _read(run, {**reading, "deadLetterTopic": dead}).na.drop(how="all")
    return [_start(run, counted(rows), append)]


def _read(run: JobRun, reading: dict[str, str]) -> DataFrame:
    options = run.options
    return (
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


def _start(run: JobRun, stream: DataFrame, each: Callable[[DataFrame, int], None]) -> StreamingQuery:
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


def _dead_letters(
    run: JobRun, batch: pa.Table, refused: Sequence[Refused], query: str, batch_id: int
) -> None:
    """After the transaction that noted them, so that one which is undone leaves none; once, by the number of
    the batch. If this process ends before they are there, the batch is repeated and comes here again."""
    topic = run.options["topic"]
    dead = run.options.get("dead") or topic + DEAD_SUFFIX
    places = zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    rows = {place: row for row, place in enumerate(places)}
    found: dict[TopicPartition, list[BadRecord]] = {}
    for one in refused:
        record = _record(batch, rows.get((one.partition, one.offset)), one)
        found.setdefault(TopicPartition(topic, one.partition), []).append(record)
    options = Options(run.broker)
    with Client(settings_of(options)) as client:
        publish(client, dead, found, f"{sink_of(query)}-dead", batch_id, patience_s(options))
    events.warning("rows were refused", topic=topic, records=len(refused), sent_to=dead)


def _record(batch: pa.Table, row: int | None, refused: Refused) -> BadRecord:
    if row is None:  # compaction took it since
        return BadRecord(None, None, refused.offset, -1, f"{refused.reason} (the topic has it no more)")
    key, value = (batch.column(name)[row].as_py() for name in ("key", "value"))
    time_us = batch.column("timestamp")[row].value
    return BadRecord(key, value, refused.offset, time_us // 1000, refused.reason)
