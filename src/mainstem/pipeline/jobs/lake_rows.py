"""A batch of the source as rows of a lake: values with types, what is told of their records, partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.jobs.lake_schema import (
    ITEMS,
    Schema,
    check_names,
    describe,
    field,
    merge,
    struct,
    without_clashes,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

ALWAYS = ("topic", "partition", "offset", "timestamp")  # of each record: its place, by which replays know it
EXTRAS = ("key", "headers", "value", "timestampType")
MADE = ("day", "hour", "topic")  # partitions that are made, not fields of the value
_CORRUPT = "__corrupt"
_CASES = "spark.sql.caseSensitive"


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows look like. `evolving`: the fields are looked for in each batch anew."""

    format: str
    extras: tuple[str, ...]
    partition_by: tuple[str, ...]
    event_time: str
    evolving: bool

    @property
    def metadata(self) -> tuple[str, ...]:
        extras = ("key", "value", *self.extras) if self.format == "raw" else self.extras
        return (*ALWAYS, *dict.fromkeys(extras))

    def of_record(self, name: str) -> str:
        """What a column of the record is called: apart from the fields of the value, if it has any."""
        return name if self.format == "raw" else f"_{name}"

    @property
    def taken(self) -> tuple[str, ...]:
        made = tuple(name for name in self.partition_by if name in MADE)
        return (*map(self.of_record, self.metadata), *(() if self.format == "raw" else made))

    def source_options(self, given: Mapping[str, str]) -> dict[str, str]:
        """How the source shall read, from the job's own options."""
        if self.format == "raw" or self.evolving:
            wanted = dict.fromkeys((*ALWAYS, "key", "value", *self.extras))
            return {"columns": ",".join(wanted)}
        passed_on = {"schema": "schema"}
        if self.format == "csv":
            passed_on["delimiter"] = "delimiter"
        if self.format == "avro":
            passed_on |= {"avroSchema": "avro_schema", "avroFraming": "avro_framing"}
        options = {theirs: given[ours] for theirs, ours in passed_on.items() if given.get(ours)}
        return {"format": self.format, "metadata": ",".join(self.metadata), **options}


@dataclass(frozen=True, slots=True)
class Rows:
    frame: DataFrame  # fields, then columns of the record; not yet cast to the lake's columns
    fields: Schema  # of the value, as they are from this batch on
    bad: DataFrame | None = None  # records that do not fit, and whether by the name of a field (`clash`)
    seen: Observation | None = None  # counts the bad ones once the frame is written


@contextmanager
def rows_of(batch: DataFrame, shape: Shape, known: Schema) -> Iterator[Rows]:
    """`known` are the fields so far."""
    if not shape.evolving:
        fields = struct([] if shape.format == "raw" else _value_fields(batch, shape))
        check_names(fields, shape.taken)
        yield Rows(batch, fields)
        return
    kept = batch.persist()  # it is read twice: for its fields, then for its rows
    try:
        yield _parsed(kept, shape, known)
    finally:
        kept.unpersist()


def _value_fields(batch: DataFrame, shape: Shape) -> list[dict[str, Any]]:
    own = {shape.of_record(name) for name in shape.metadata}
    return [one for one in json.loads(batch.schema.json())["fields"] if one["name"] not in own]


def _seen_fields(batch: DataFrame) -> Schema:
    """Of all values that are objects."""
    from pyspark.sql import functions as F

    text = batch.select(F.col("value").cast("string").alias("value"))
    # A list of objects would become several rows: only what begins like an object is one.
    objects = text.where("ltrim(value) LIKE '{%'")
    session = batch.sparkSession
    reader = session.read.option("dropFieldIfAllNull", "true").option("columnNameOfCorruptRecord", _CORRUPT)
    before = session.conf.get(_CASES, "false")
    session.conf.set(_CASES, "true")  # or names that differ only in case could be taken for one
    try:
        found = json.loads(reader.json(objects).schema.json())
    finally:
        session.conf.set(_CASES, before)
    return struct([one for one in found["fields"] if one["name"] != _CORRUPT])


def _parsed(batch: DataFrame, shape: Shape, known: Schema) -> Rows:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    seen = _seen_fields(batch)
    fields, refused = without_clashes(merge(known, seen).schema, known, shape.taken)

    parsing = StructType.fromJson(struct([*fields["fields"], field(_CORRUPT, "string")]))
    value = F.col("value").cast("string")
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    parsed = batch.withColumn("__value", F.from_json(value, parsing, options))
    wrong = F.col(f"__value.{_CORRUPT}").isNotNull() | (value.isNotNull() & ~F.ltrim(value).startswith("{"))
    parsed = parsed.withColumn("__clash", _has_one(value, refused))
    parsed = parsed.withColumn("__wrong", F.coalesce(wrong, F.lit(False)) | F.col("__clash"))
    seen_bad = Observation()
    observed = parsed.observe(seen_bad, F.count_if("__wrong").alias("bad"))
    columns = [F.col("__value").getField(one["name"]).alias(one["name"]) for one in fields["fields"]]
    columns += [F.col(name).alias(shape.of_record(name)) for name in shape.metadata]
    bad = parsed.where("__wrong").select(*ALWAYS, "key", "value", F.col("__clash").alias("clash"))
    return Rows(observed.where("NOT __wrong").select(*columns), fields, bad, seen_bad)


def _has_one(value: Column, refused: Sequence[tuple[str, ...]]) -> Column:
    """Whether a value has one of these fields. Others are not made to pay: mostly there are none."""
    from pyspark.sql import functions as F

    found = F.lit(False)
    outer = [path[0] for path in refused if len(path) == 1]
    if outer:
        found |= F.arrays_overlap(F.json_object_keys(value), F.array(*map(F.lit, outer)))
    for path in (path for path in refused if len(path) > 1):
        steps = "".join(name if name == ITEMS else f"['{name}']" for name in path)
        found |= F.get_json_object(value, f"${steps}").isNotNull()
    return F.coalesce(found, F.lit(False))


def dead_letters(bad: DataFrame, topic: str, fields: Schema) -> DataFrame:
    """As the source sends them: the record as it came, with the reason."""
    from pyspark.sql import functions as F

    no_json = F.expr(
        "try_parse_json(CAST(value AS STRING)) IS NULL OR ltrim(CAST(value AS STRING)) NOT LIKE '{%'"
    )
    clash = "a field has the name of another but for its case, or of a column of the lake's own"
    misfit = f"a field does not fit the columns of the lake: {describe(fields)}"
    facts = {
        "reason": F.when(no_json, F.lit("not a JSON object"))
        .when(F.col("clash"), F.lit(clash))
        .otherwise(F.lit(misfit)),
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
    }
    headers = [
        F.struct(F.lit(f"mainstem.{name}").alias("key"), told.cast("binary").alias("value"))
        for name, told in facts.items()
    ]
    target = F.lit(topic) if topic else F.concat("topic", F.lit(".dead"))
    return bad.select(target.alias("topic"), "key", "value", F.array(*headers).alias("headers"))


def row_columns(shape: Shape, fields: Schema) -> Schema:
    """The columns of a file: those that are not in its folder's name."""
    from pyspark.sql.types import StructType

    from mainstem.spark.columns import DDL

    ddl = ", ".join(f"`{shape.of_record(name)}` {DDL[name]}" for name in shape.metadata)
    own = json.loads(StructType.fromDDL(ddl).json())["fields"]
    every = [*fields.get("fields", []), *own]
    return struct([one for one in every if one["name"] not in shape.partition_by])


def cast_to(frame: DataFrame, columns: Schema) -> list[Column]:
    """Each column in the lake's type; null where the frame has none."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    wanted = StructType.fromJson(columns)
    # A column that is not there is null; one in the type of the lake is left alone.
    return [
        (F.col(f"`{one.name}`") if one.name in frame.columns else F.lit(None))
        .cast(one.dataType)
        .alias(one.name)
        for one in wanted.fields
    ]


def partition_columns(shape: Shape, known: list[str]) -> dict[str, Column]:
    """By name, in the order of the folders; of UTC, whatever the session's time zone is."""
    from pyspark.sql import functions as F

    wanted = {"event_time": [shape.event_time] * bool(shape.event_time)}
    wanted["partition_by"] = [name for name in shape.partition_by if name not in MADE]
    for option, missing in ((option, name) for option, them in wanted.items() for name in them):
        if missing not in known and known:
            raise InvalidRequest(_no_such(option, missing, known))

    def of_value(name: str) -> Column:
        """Null as long as no value could be read."""
        return F.col(f"`{name}`") if known else F.lit(None).cast("string")

    record_time = F.col(shape.of_record("timestamp"))
    time = of_value(shape.event_time).cast("timestamp") if shape.event_time else record_time
    utc = F.to_utc_timestamp(time, F.current_timezone())
    made = {
        "day": F.date_format(utc, "yyyy-MM-dd"),
        "hour": F.date_format(utc, "HH"),
        "topic": F.col(shape.of_record("topic")),
    }
    return {name: made[name] if name in made else of_value(name) for name in shape.partition_by}


def _no_such(option: str, name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"{option}: the values have no field {name!r}{hint}"
