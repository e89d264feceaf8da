"""A pipeline's parts become DataFrames, on the driver. What one part makes, others read by its name.

A stream that goes to a topic is read again from that topic: what others compute of it is what the world sees,
and each query has its own checkpoint. In a backfill everything is a batch, and nothing is read again.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mainstem.pipeline.checking import Checked
from mainstem.pipeline.dead_topics import beside
from mainstem.pipeline.parts import Call, Function, Insert, JobPart, Part, PerMessage, Pipeline, Query, Source
from mainstem.pipeline.per_message import per_message
from mainstem.pipeline.schemas import metadata_of
from mainstem.pipeline.settings import READING, below, listed, passed_on, text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What has no meaning where values stay bytes.
TYPED = frozenset(
    {"format", "delimiter", "avro_schema", "avro_framing", "dead_letters", "metadata", "headers"}
)
TABLE_OPTIONS = frozenset({"format", "path", "partition_by", "output", "trigger"})


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of history, in ms since 1970; None is open."""

    from_ms: int | None
    to_ms: int | None


@dataclass(frozen=True, slots=True)
class Output:
    """Rows that leave the pipeline. `target` has the options of where they go."""

    name: str
    target: Source | Query | Call | PerMessage
    frame: DataFrame
    wave: int  # with --once, runs after all of lower waves


class Frames:
    def __init__(
        self,
        spark: SparkSession,
        broker: Mapping[str, str],
        pipeline: Pipeline,
        span: Span | None = None,
        suffix: str = "",
    ) -> None:
        """With a span it is a backfill, whose dead letters go to topics with the suffix."""
        self._spark = spark
        self._broker = broker
        self._pipeline = pipeline
        self._span = span
        self._suffix = suffix
        self._frames: dict[str, DataFrame] = {}
        self._streams: dict[str, Source | Query | Call] = {}  # by name, those with a topic
        self._waves: dict[str, int] = {}  # the wave that makes what a name reads
        self.outputs: list[Output] = []

    def build(self, checked: Checked) -> None:
        _send_by_value(self._pipeline.folder, checked.order)
        targets = {part.name.lower(): part for part in checked.order if isinstance(part, Source)}
        read = {name for names in checked.inputs.values() for name in names}
        for part in checked.order:
            if isinstance(part, Source) and part.name not in read:
                continue  # only written to: there may be nothing to read yet
            wave = max((self._waves.get(name.lower(), 0) for name in checked.inputs[part.name]), default=0)
            made = [self._waves.get(name.lower(), 0) + 1 for name in checked.after.get(part.name, ())]
            wave = max([wave, *made])
            self._waves[part.name.lower()] = wave
            try:
                self._add(part, wave, targets)
            except Exception as error:
                error.add_note(str(part.at))
                raise

    def _add(self, part: Part, wave: int, targets: Mapping[str, Source]) -> None:
        if isinstance(part, Source | Query | Call) and part.kind == "stream":
            self._streams[part.name.lower()] = part
        if isinstance(part, Function):
            from pyspark.sql import functions

            # Arrow for functions would need pandas, and Spark warns where it is not there.
            plain = functions.udf(part.function, part.returns, useArrow=False)
            self._spark.udf.register(part.name, plain)
        elif isinstance(part, Source):
            self._name(part.name, self._source(part))
        elif isinstance(part, Insert):
            self.outputs.append(Output(part.name, targets[part.into.lower()], self._sql(part.query), wave))
        elif isinstance(part, PerMessage):
            frame = per_message(self._raw(self._streams[part.source.lower()]), part.function, part.options)
            self.outputs.append(Output(part.name, part, frame, wave))
        elif isinstance(part, Query | Call):
            self._made(part, wave)
        else:
            assert isinstance(part, JobPart)

    def _made(self, part: Query | Call, wave: int) -> None:
        frame = self._sql(part.query) if isinstance(part, Query) else self._called(part)
        to_topic = part.kind == "stream" and "topic" in part.options
        if to_topic or part.kind == "table":
            self.outputs.append(Output(part.name, part, frame, wave))
        if to_topic and self._span is None:
            frame = self._read_again(part, frame)
            self._waves[part.name.lower()] = wave + 1
        elif part.kind == "stream":
            frame = self._timed(frame, part)
        self._name(part.name, frame)

    def _sql(self, query: str) -> DataFrame:
        return self._spark.sql(query)

    def _called(self, part: Call) -> DataFrame:
        made = part.function(*[self._frames[name.lower()] for name in part.inputs])
        from pyspark.sql import DataFrame

        if not isinstance(made, DataFrame):
            raise TypeError(f"{part.name} must return a DataFrame, not {type(made).__name__}")
        return made

    def _name(self, name: str, frame: DataFrame) -> None:
        self._frames[name.lower()] = frame
        frame.createOrReplaceTempView(f"`{name}`")

    # --- sources ---------------------------------------------------------------------------------

    def _source(self, part: Source) -> DataFrame:
        return self._stream(part) if part.kind == "stream" else self._table(part)

    def _stream(self, part: Source) -> DataFrame:
        options = _reading(part, READING)
        metadata = metadata_of(part)
        if metadata:
            options["metadata"] = ",".join(metadata)
        if part.schema:
            options["schema"] = part.schema
        return self._timed(self._load({"format": "json", **options}), part)

    def _raw(self, part: Source | Query | Call) -> DataFrame:
        """The same records as bytes."""
        return self._load({**_reading(part, READING.keys() - TYPED), "includeHeaders": "true"})

    def _read_again(self, part: Query | Call, made: DataFrame) -> DataFrame:
        format = text(part.options, "format", "json").lower()
        options = {
            **passed_on(part.options),
            "subscribe": text(part.options, "topic"),
            "format": format,
            "startingOffsets": "earliest",
            "isolationLevel": "read_committed",
        }
        if format not in ("raw", "text"):
            options["schema"] = made.schema.toDDL()
        if "delimiter" in part.options:
            options["delimiter"] = text(part.options, "delimiter")
        return self._timed(self._load(options), part)

    def _load(self, options: Mapping[str, str]) -> DataFrame:
        chosen = {**self._broker, **options}
        if self._span is None:
            return self._spark.readStream.format("mainstem").options(**chosen).load()
        for name in ("startingOffsets", "startingTimestamp", "maxOffsetsPerTrigger", "maxBytesPerTrigger"):
            chosen.pop(name, None)
        if self._span.from_ms is not None:
            chosen |= {
                "startingTimestamp": str(self._span.from_ms),
                "startingOffsetsByTimestampStrategy": "latest",
            }
        if self._span.to_ms is not None:
            chosen["endingTimestamp"] = str(self._span.to_ms)
        if "deadLetterTopic" in chosen:
            chosen["deadLetterTopic"] = beside(chosen["deadLetterTopic"], self._suffix)
        chosen["deadLetterSuffix"] = self._suffix
        return self._spark.read.format("mainstem").options(**chosen).load()

    def _timed(self, frame: DataFrame, part: Source | Query | Call) -> DataFrame:
        column, watermark = text(part.options, "timestamp"), text(part.options, "watermark")
        if watermark and self._span is None:
            frame = frame.withWatermark(column, watermark.lower().removeprefix("interval "))
        unique = list(listed(part.options, "deduplicate"))
        if not unique:
            return frame
        if watermark and self._span is None:
            return frame.dropDuplicatesWithinWatermark(unique)
        return frame.dropDuplicates(unique)

    def _table(self, part: Source) -> DataFrame:
        reader = self._spark.read.format(text(part.options, "format"))
        if part.schema:
            reader = reader.schema(part.schema)
        return reader.options(**table_options(part)).load(path_of(part, self._pipeline))


def _reading(part: Source | Query | Call, names: Collection[str]) -> dict[str, str]:
    """Options of the source, by its own words."""
    given = {"isolation": "read_committed", "starting": "earliest"}
    given |= {name: option.value for name, option in part.options.items()}
    if "starting_time" in given:
        del given["starting"]
    chosen = {READING[name].spark: value for name, value in given.items() if name in names}
    chosen.pop("", None)  # what the pipeline itself uses
    chosen.pop("metadata", None)
    return chosen | passed_on(part.options)


def table_options(part: Source | Query | Call) -> dict[str, str]:
    return {name: option.value for name, option in part.options.items() if name not in TABLE_OPTIONS}


def path_of(part: Source | Query | Call, pipeline: Pipeline, suffix: str = "") -> str | None:
    path = text(part.options, "path")
    return below(pipeline.folder, path.rstrip("/") + suffix) if path else None


def _send_by_value(folder: str, order: tuple[Part, ...]) -> None:
    """Executors have no module of the user's files, nor of what lies beside them."""
    from pyspark.cloudpickle import register_pickle_by_value

    own = {getattr(part, "function", None).__module__ for part in order if hasattr(part, "function")}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        beside = file.startswith(f"{folder}/") and "site-packages" not in file
        if name in own or beside:
            register_pickle_by_value(module)
