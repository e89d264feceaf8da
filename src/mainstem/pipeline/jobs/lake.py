"""Topics to partitioned Parquet, exactly once, with small files compacted and columns that grow.

The rule that makes it safe stands in lake_folder.py, the columns in lake_schema.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mainstem.model.errors import InvalidRequest, NotSupported
from mainstem.pipeline.counting import counted
from mainstem.pipeline.dead_topics import NONE, DeadTopics, of_topics
from mainstem.pipeline.jobs import Job, JobOption, JobRun
from mainstem.pipeline.jobs.lake_compaction import Policy
from mainstem.pipeline.jobs.lake_folder import Lake, Positions, State
from mainstem.pipeline.jobs.lake_options import (
    ISOLATION_HELP,
    flag,
    isolation,
    local_folder,
    names,
    one_of,
    seconds,
    size_bytes,
    subscription,
    whole,
)
from mainstem.pipeline.jobs.lake_rows import EXTRAS, Shape

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

FORMATS = ("raw", "json", "csv", "avro", "text")
TABLE_FORMATS = ("parquet", "delta", "iceberg")
ICEBERG_OWN = ("_partition", "_source_partition")  # it keeps the first for itself
CODECS = ("zstd", "snappy", "gzip", "lz4", "none")

OPTIONS = (
    JobOption("topic", "the topic, or several with commas"),
    JobOption("pattern", "a regular expression of topics, instead of topic"),
    JobOption("path", "the lake's folder", is_path=True),
    JobOption("table", "of delta and iceberg: a table of a catalog, instead of path"),
    JobOption("format", "what values are: raw, json, csv, avro or text", default="raw"),
    JobOption(
        "schema", "the fields of values, as in 'id BIGINT, at TIMESTAMP'; without it json tells them itself"
    ),
    JobOption("delimiter", "of csv", default=","),
    JobOption("avro_schema", "of avro: the schema that values were written with, in JSON"),
    JobOption("avro_framing", "of avro: what comes before a value, as the source has it", default="plain"),
    JobOption("metadata", "what else to keep of a record: key, headers, value, timestampType", default="key"),
    JobOption("partition_by", "day, hour, topic, or fields of the value, with commas", default="day"),
    JobOption("event_time", "the field that day and hour are of; the record's timestamp without it"),
    JobOption(
        "starting_offsets", "where an empty lake begins: earliest, latest, or JSON", default="earliest"
    ),
    JobOption("max_records", "how many records a batch has at most", default="1000000"),
    JobOption("fail_on_data_loss", "end if records are gone before they were read", default="true"),
    JobOption("isolation", ISOLATION_HELP, default="read_committed"),
    JobOption("dead_letter_topic", "where records go that cannot be read; <topic>.dead without it"),
    JobOption("compression", f"of the files: {', '.join(CODECS)}", default="zstd"),
    JobOption("target_size", "of a compacted file", default="128 MiB"),
    JobOption("compact_files", "so many files of a size are merged; 0: none are", default="8"),
    JobOption("compact_idle", "folders without news for so long are merged whole", default="1 hour"),
    JobOption("table_format", "parquet, or delta or iceberg if Spark has their jars", default="parquet"),
)


def check(options: Mapping[str, str]) -> None:
    subscription(options)
    shape_of(options)
    policy_of(options)
    whole("max_records", options["max_records"], 1)
    flag("fail_on_data_loss", options["fail_on_data_loss"])
    isolation(options)
    one_of("compression", options["compression"], CODECS)
    path, table = options.get("path", ""), options.get("table", "")
    if one_of("table_format", options["table_format"], TABLE_FORMATS) == "parquet":
        if table or not path:
            raise InvalidRequest("parquet needs a path" + ", not a table" * bool(table))
        local_folder("path", path)
    elif bool(path) == bool(table):
        raise InvalidRequest("give either path or table: where the lake is")


def shape_of(options: Mapping[str, str]) -> Shape:
    format, schema = one_of("format", options["format"], FORMATS), options.get("schema", "").strip()
    extras = tuple(_extra(name) for name in names(options["metadata"]))
    partition_by = list(dict.fromkeys(names(options["partition_by"])))
    if not partition_by:
        raise InvalidRequest("partition_by is empty: a lake has folders, day is a good choice")
    if "hour" in partition_by and "day" not in partition_by:
        partition_by.insert(partition_by.index("hour"), "day")
    event_time = options.get("event_time", "").strip()
    if format == "raw" and (event_time or schema):
        raise InvalidRequest(
            f"{'event_time' if event_time else 'schema'} needs a format: raw values have no fields"
        )
    if format == "csv" and not schema:
        raise InvalidRequest("csv needs a schema, as in 'id BIGINT, at DATE'")
    if format == "avro" and not options.get("avro_schema", "").strip():
        raise InvalidRequest("avro needs avro_schema: the schema that the values were written with, in JSON")
    evolving = format == "json" and not schema and options["table_format"] == "parquet"
    return Shape(format, extras, tuple(partition_by), event_time, evolving)


def _extra(name: str) -> str:
    by_lower = {known.lower(): known for known in EXTRAS}
    return by_lower[one_of("metadata", name, by_lower)]


def dead_topics(options: Mapping[str, str]) -> DeadTopics:
    if options["format"].strip().lower() == "raw":  # reads everything
        return NONE
    return of_topics(
        names(options.get("topic", "")), options.get("pattern", ""), options.get("dead_letter_topic", "")
    )


def policy_of(options: Mapping[str, str]) -> Policy:
    fan_in = whole("compact_files", options["compact_files"])
    if fan_in == 1:
        raise InvalidRequest("compact_files is 2 or more, or 0 to merge none")
    target = size_bytes("target_size", options["target_size"])
    return Policy(target, fan_in, seconds("compact_idle", options["compact_idle"]))


def start(run: JobRun) -> list[StreamingQuery]:
    check(run.options)
    shape = shape_of(run.options)
    if run.options["table_format"] != "parquet":
        return [_start_table(run, shape)]
    from mainstem.pipeline.jobs.lake_writer import Plan, Writer

    lake = Lake(local_folder("path", run.options["path"]))
    with lake.locked():
        began = lake.recover()
    _refuse_other_shape(lake, began, shape)
    plan = Plan(
        shape,
        policy_of(run.options),
        run.options["compression"],
        run.checkpoint,
        run.broker,
        run.options.get("dead_letter_topic", ""),
    )
    writer = _stream(run, shape, began.held).writeStream.foreachBatch(Writer(lake, plan, began, run.tally))
    named = writer.queryName(run.name).option("checkpointLocation", run.checkpoint)
    return [named.trigger(**run.trigger).start()]


def _stream(run: JobRun, shape: Shape, held: Positions) -> DataFrame:
    given = run.options
    options = {
        **run.broker,
        **subscription(given),
        **shape.source_options(given),
        "startingOffsets": starting_offsets(run, held) if held else given["starting_offsets"],
        "maxOffsetsPerTrigger": given["max_records"],
        "failOnDataLoss": given["fail_on_data_loss"],
        "isolationLevel": isolation(given),
    }
    if given.get("dead_letter_topic"):
        options["deadLetterTopic"] = given["dead_letter_topic"]
    return run.spark.readStream.format("mainstem").options(**options).load()


def starting_offsets(run: JobRun, held: Positions) -> str:
    """Where the lake ends, for a query that has no checkpoint yet. Partitions that are new since then are
    read from their beginning."""
    from mainstem.client.client import Client
    from mainstem.spark.connecting import settings_of
    from mainstem.spark.options import Options, topics_of
    from mainstem.spark.planning import find_places

    options = Options({**run.broker, **subscription(run.options)})
    found: Positions = {}
    with Client(settings_of(options)) as client:
        for place in find_places(client, topics_of(options)):
            at = held.get(place.topic, {}).get(str(place.partition), -2)
            found.setdefault(place.topic, {})[str(place.partition)] = at
    return json.dumps(found)


def _refuse_other_shape(lake: Lake, state: State, shape: Shape) -> None:
    if not state.query:
        return
    if state.partition_by != list(shape.partition_by):
        raise InvalidRequest(
            f"the lake {lake.folder} has partition_by = '{', '.join(state.partition_by)}'; "
            "another one needs another path"
        )
    if state.format != shape.format:
        raise InvalidRequest(
            f"the lake {lake.folder} has format = '{state.format}'; another needs another path"
        )


def _start_table(run: JobRun, shape: Shape) -> StreamingQuery:
    """Delta and Iceberg have sinks of their own, which are exactly once and have their own compaction."""
    from pyspark.sql.utils import AnalysisException

    kind = run.options["table_format"]
    _require_jars(run, kind)
    frame = _stream(run, shape, {})
    if kind == "iceberg":
        frame = frame.withColumnRenamed(*ICEBERG_OWN)
    from mainstem.pipeline.jobs.lake_rows import partition_columns

    made = partition_columns(shape, frame.columns)
    rows = frame.withColumns({name: column for name, column in made.items() if name not in frame.columns})
    writer = counted(rows).writeStream.format(kind).outputMode("append").queryName(run.name)
    writer = writer.option("checkpointLocation", run.checkpoint).option("mergeSchema", "true")
    writer = writer.partitionBy(*made).trigger(**run.trigger)
    path, table = run.options.get("path", ""), run.options.get("table", "")
    try:
        return writer.toTable(table) if table else writer.start(path)
    except AnalysisException as error:
        raise InvalidRequest(f"{kind} does not take the table {table or path!r}: {error}") from None


def _require_jars(run: JobRun, kind: str) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm, session = run.spark._jvm, run.spark._jsparkSession
    assert jvm is not None
    try:
        sources = jvm.org.apache.spark.sql.execution.datasources.DataSource
        sources.lookupDataSource(kind, session.sessionState().conf())
    except Py4JJavaError:
        raise NotSupported(
            f"this Spark has no {kind}: start it with the jars, as in --conf spark.jars.packages=... "
            "(table_format = 'parquet' needs none)"
        ) from None


JOB = Job(
    help="topics to partitioned Parquet, exactly once, with small files compacted and columns that grow",
    options=OPTIONS,
    start=start,
    check=check,
    dead=dead_topics,
)
