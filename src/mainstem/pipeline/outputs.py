"""Rows leave a pipeline: into a topic through the exactly-once sink, or into a table of Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.counting import Seen, counted
from mainstem.pipeline.frames import Output, path_of, table_options
from mainstem.pipeline.parts import Options, PerMessage, Pipeline, Source
from mainstem.pipeline.settings import OUTPUTS, listed, passed_on, text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

# Spark's own cuts times to milliseconds.
JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
LIVE_TRIGGER = "1 second"


def goes_to_topic(output: Output) -> bool:
    return isinstance(output.target, PerMessage) or output.target.kind == "stream"


def refuse_foreign_folders(outputs: Iterable[Output], pipeline: Pipeline, checkpoints: str) -> None:
    """Before the first query runs: what one writes could not be taken back when the next is refused."""
    for output in outputs:
        if output.frame.isStreaming and not goes_to_topic(output):
            assert not isinstance(output.target, PerMessage)
            path = path_of(output.target, pipeline)
            try:
                _must_be_its_own(output, path, f"{checkpoints}/{output.name}")
            except InvalidRequest as error:
                error.add_note(str(output.target.at))
                raise


def start(
    output: Output, pipeline: Pipeline, broker: Mapping[str, str], checkpoint: str, once: bool
) -> StreamingQuery | None:
    """None: it was no stream, and is written now."""
    options = output.target.options
    if not output.frame.isStreaming:
        if goes_to_topic(output) or isinstance(output.target, Source):
            raise InvalidRequest(f"{output.name} reads no stream, and would be written again at every start")
        write(output, pipeline, broker, "", replace=True)
        return None
    mode = OUTPUTS[text(options, "output", "append").lower()]
    if goes_to_topic(output):
        writer = _topic_writer(counted(rows_of(output)), _sink(options, broker), mode)
    else:
        writer = _table_writer(output, pipeline)
    trigger: dict[str, Any] = (
        {"availableNow": True} if once else {"processingTime": text(options, "trigger", LIVE_TRIGGER)}
    )
    writer = writer.queryName(output.name).option("checkpointLocation", checkpoint)
    return writer.outputMode(mode).trigger(**trigger).start()


def write(
    output: Output, pipeline: Pipeline, broker: Mapping[str, str], suffix: str, *, replace: bool = False
) -> int:
    """All rows at once; how many they were, -1 if Spark does not tell. Topics and paths get the suffix."""
    options = output.target.options
    if goes_to_topic(output):
        frame, sink = rows_of(output), _sink(options, broker)
        if "topic" in sink:
            sink["topic"] += suffix
        if suffix and "topic" in frame.columns:
            from pyspark.sql import functions

            frame = frame.withColumn("topic", functions.concat("topic", functions.lit(suffix)))
        seen = Seen(frame)
        seen.frame.write.format("mainstem").options(**sink).mode("append").save()
        return seen.rows()
    assert not isinstance(output.target, PerMessage)
    seen = Seen(output.frame)
    writer = seen.frame.write.format(text(options, "format")).options(**table_options(output.target))
    columns = listed(options, "partition_by")
    if columns:
        writer = writer.partitionBy(*columns)
    writer.mode("overwrite" if replace else "append").save(path_of(output.target, pipeline, suffix))
    return seen.rows()


def rows_of(output: Output) -> DataFrame:
    """Key and value, as the sink wants them."""
    from pyspark.sql import functions

    frame, options = output.frame, output.target.options
    format = text(options, "format", "json").lower()
    if isinstance(output.target, PerMessage) or format == "raw":
        return frame
    if format == "text":
        if len(frame.columns) != 1:
            raise ValueError(f"format text takes one column, not {', '.join(frame.columns)}")
        value = functions.col(f"`{frame.columns[0]}`").cast("string")
    elif format == "csv":
        value = functions.to_csv(functions.struct("*"), {"sep": text(options, "delimiter", ",")})
    else:
        value = functions.to_json(functions.struct("*"), JSON)
    keys = listed(options, "key")
    columns = [value.alias("value")]
    if len(keys) == 1:
        columns.append(_as_key(frame, keys[0]).alias("key"))
    elif keys:
        columns.append(functions.to_json(functions.struct(*keys), JSON).alias("key"))
    return frame.select(*columns)


def _as_key(frame: DataFrame, name: str) -> Column:
    """A time is spelt as in the value."""
    from pyspark.sql import functions
    from pyspark.sql.types import TimestampType

    column = functions.col(name)
    is_time = isinstance(frame.select(column).schema.fields[0].dataType, TimestampType)
    return functions.date_format(column, JSON["timestampFormat"]) if is_time else column.cast("string")


def _must_be_its_own(output: Output, path: str | None, checkpoint: str) -> None:
    """Spark notes in a folder which batches it holds. A new checkpoint counts from 0 again, and what has the
    number of a noted batch would be left out without a word.
    """
    spark = output.frame.sparkSession
    if (
        path is not None
        and _exists(spark, f"{path}/_spark_metadata")
        and not _exists(spark, f"{checkpoint}/offsets")
    ):
        raise InvalidRequest(
            f"{path} holds what another checkpoint wrote, and would take nothing from a new one:"
            " delete the folder, or give another path"
        )


def _exists(spark: SparkSession, path: str) -> bool:
    """Wherever it lies: Spark knows its file systems."""
    place = spark._jvm.org.apache.hadoop.fs.Path(path)
    return bool(place.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(place))


def _sink(options: Options, broker: Mapping[str, str]) -> dict[str, str]:
    topic = {"topic": text(options, "topic")} if "topic" in options else {}
    return {**broker, **passed_on(options), **topic}


def _topic_writer(rows: DataFrame, sink: Mapping[str, str], mode: str) -> DataStreamWriter:
    if mode == "append":
        return rows.writeStream.format("mainstem").options(**sink)

    # Spark lets no Python sink take changes; a function may, and gets the number to write them once by.
    def publish(changes: DataFrame, batch: int) -> None:
        changes.write.format("mainstem").options(**sink, batchId=str(batch)).mode("append").save()

    return rows.writeStream.foreachBatch(publish)


def _table_writer(output: Output, pipeline: Pipeline) -> DataStreamWriter:
    assert not isinstance(output.target, PerMessage)
    options = output.target.options
    format = text(options, "format")
    settings = table_options(output.target)
    if format == "jdbc":  # Spark has no stream of its own for it
        return counted(output.frame).writeStream.foreachBatch(
            lambda frame, number: frame.write.format("jdbc").options(**settings).mode("append").save()
        )
    writer = counted(output.frame).writeStream.format(format).options(**settings)
    path = path_of(output.target, pipeline)
    if path is not None:
        writer = writer.option("path", path)
    columns = listed(options, "partition_by")
    return writer.partitionBy(*columns) if columns else writer
