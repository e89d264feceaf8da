"""What one query reads: the options, checked and put together. It travels with the readers."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from mainstem.model.errors import InvalidRequest
from mainstem.spark.avro import Avro, ddl_of_avro
from mainstem.spark.columns import ddl_of, names_of
from mainstem.spark.connecting import patience_s, settings_of
from mainstem.spark.formats import Format
from mainstem.spark.options import (
    Bound,
    Kind,
    Options,
    Topics,
    ending,
    is_committed,
    keeps_bad,
    starting,
    topics_of,
)
from mainstem.spark.reading import ReadOptions
from mainstem.spark.typed import Typing, typed_ddl
from mainstem.spark.types import arrow_schema


@dataclass(frozen=True, slots=True)
class ReadRequest:
    topics: Topics
    start: Bound
    end: Bound  # of a batch
    read: ReadOptions
    min_partitions: int = 0
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None

    @classmethod
    def of(cls, options: Options, kind: Kind, schema: StructType) -> ReadRequest:
        typing = _typing(options, schema)
        return cls(
            topics_of(options),
            starting(options, kind),
            ending(options),
            ReadOptions(
                settings_of(options),
                _raw_names(options) if typing is None else typing.names,
                is_committed(options),
                options.flag("failOnDataLoss", True),
                patience_s(options),
                typing,
                options.text("deadLetterTopic"),
                options.text("deadLetterSuffix"),
            ),
            options.number("minPartitions") or 0,
            options.number("maxRecordsPerPartition"),
            options.number("maxOffsetsPerTrigger"),
            options.number("maxBytesPerTrigger"),
        )


def row_ddl(options: Options) -> str:
    """The columns of a row, in Spark's words."""
    format = format_of(options)
    if format.name == "raw":
        return ddl_of(_raw_names(options))
    fields = options.text("schema", "value STRING" if format.name == "text" else "").strip()
    if not fields and format.name == "csv":
        raise InvalidRequest("schema is missing: the fields of a csv value, as in 'id BIGINT, at DATE'")
    if not fields and format.avro is not None:
        fields = ddl_of_avro(format.avro.schema)
    if not fields:
        from mainstem.spark.inference import infer_ddl  # loads parsers that a schema makes needless

        fields = infer_ddl(settings_of(options), topics_of(options))
    return typed_ddl(fields, _metadata(options))


def format_of(options: Options) -> Format:
    name = options.text("format", "raw").strip().lower()
    if name != "avro":
        return Format(name, options.text("delimiter", ","))
    if not options.has("avroSchema"):
        raise InvalidRequest("avroSchema is missing: the schema that the values were written with, in JSON")
    return Format(
        name, avro=Avro(options.text("avroSchema"), options.text("avroFraming", "plain").strip().lower())
    )


def _typing(options: Options, schema: StructType) -> Typing | None:
    format = format_of(options)
    if format.name == "raw":
        return None
    return Typing(format, arrow_schema(schema), _metadata(options), keep_bad=keeps_bad(options))


def _raw_names(options: Options) -> tuple[str, ...]:
    return names_of(options.list("columns"), options.flag("includeHeaders", False))


def _metadata(options: Options) -> tuple[str, ...]:
    """What typed rows tell of their record besides its value."""
    if options.has("columns"):
        raise InvalidRequest(
            "columns is for bytes; with a format, schema says what is read and metadata what else"
        )
    return names_of(options.list("metadata"), False) if options.list("metadata") else ()
