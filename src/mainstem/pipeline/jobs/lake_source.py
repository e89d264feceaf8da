"""A lake as a stream of records: Spark source `mainstem-lake`, for the job replay.

Spark's own stream of files goes by the names of files, and would read a row again each time its file is
merged with others. Here a position is what it is in a topic, the next offset of each partition: a batch is
"topic orders, partition 0, offsets 100 to 200", and holds the same rows in the same order whichever files
they lie in.

A file that is gone when it is opened was merged with others meanwhile: then the folder is listed anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.jobs.lake_folder import Lake, Positions, State
from mainstem.pipeline.jobs.lake_schema import Schema, field, struct
from mainstem.spark.types import arrow_schema
from mainstem.spark.versions import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

NAME = "mainstem-lake"
ROWS = 20_000  # of a batch of Arrow's
LISTINGS = 100  # in vain: nobody merges that fast
_MADE = {"day": "date", "hour": "integer", "topic": "string"}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Bounds(NamedTuple):
    """Times of records, in microseconds; None: no bound."""

    since_us: int | None
    until_us: int | None


class Stretch(InputPartition):
    """Offsets of one partition of a topic."""

    def __init__(self, topic: str, index: int, start: int, end: int) -> None:
        super().__init__(f"{topic}-{index}")
        self.topic, self.index, self.start, self.end = topic, index, start, end


class LakeSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return StructType.fromJson(row_schema(Lake(self.options["path"]).state()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        since, until = (
            int(self.options[name]) if name in self.options else None for name in ("since", "until")
        )
        most = int(self.options["maxrecords"])
        return LakeReader(self.options["path"], arrow_schema(schema), Bounds(since, until), most)


def row_schema(state: State) -> Schema:
    """The columns of files, and those that are only in names of folders."""
    fields: list[Schema] = [*state.fields.get("fields", [])]  # type: ignore[misc]
    kinds = _MADE | {one["name"]: one["type"] for one in fields}
    columns: list[Schema] = [*state.columns.get("fields", [])]  # type: ignore[misc]
    return struct([*columns, *(field(name, kinds[name]) for name in state.partition_by)])


class LakeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: str, schema: pa.Schema, bounds: Bounds, most: int) -> None:
        self._path = path
        self._schema = schema
        self._bounds = bounds
        self._most = most
        self._target: Positions | None = None
        self._first: Positions | None = None

    # --- asked on the driver ---------------------------------------------------------------------

    def initialOffset(self) -> Positions:
        """The first rows that are wanted. Asked again it is the same: rows are never added before others."""
        if self._first is None:
            self._first = first_positions(self._path, self._schema, self._bounds)
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._most)

    def latestOffset(self, start: Any, limit: ReadLimit) -> Positions:
        end = self._target if self._target is not None else Lake(self._path).state().held
        return limited(start, end, self._most)

    def reportLatestOffset(self) -> Positions:
        return Lake(self._path).state().held

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = Lake(self._path).state().held

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return [
            Stretch(topic, int(index), start.get(topic, {}).get(index, 0), at)
            for topic, places in end.items()
            for index, at in places.items()
            if at > start.get(topic, {}).get(index, 0)
        ]

    def commit(self, end: Any) -> None:
        """Nothing to do: the checkpoint is Spark's."""

    def stop(self) -> None:
        """Nothing is open."""

    # --- in executors ------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Stretch):
            yield from read_stretch(self._path, self._schema, self._bounds, partition).to_batches(ROWS)


def limited(start: Positions, end: Positions, most: int) -> Positions:
    """At most so many offsets on, for all partitions together, as long as each moves."""
    left = {
        (topic, index): at - start.get(topic, {}).get(index, 0)
        for topic, places in end.items()
        for index, at in places.items()
    }
    moving = [place for place, count in left.items() if count > 0]
    share = max(1, most // max(1, len(moving)))
    found: Positions = {}
    for (topic, index), count in left.items():
        begun = start.get(topic, {}).get(index, 0)
        found.setdefault(topic, {})[index] = begun + max(0, min(count, share))
    return found


def first_positions(path: str, schema: pa.Schema, bounds: Bounds) -> Positions:
    """The first offset of each partition that is in the lake and in the bounds; where none is, its end."""
    found: Positions = {topic: dict(places) for topic, places in Lake(path).state().held.items()}
    names = [_record_name(schema, name) for name in ("topic", "partition", "offset")]
    places_only = pa.schema([schema.field(name) for name in (*names, _record_name(schema, "timestamp"))])

    def look() -> list[pa.Table]:
        return [
            _read_file(file.path, places_only, _in_time(schema, bounds))
            .group_by(names[:2])
            .aggregate([(names[2], "min")])
            for leaf in Lake(path).leaves()
            for file in Lake(path).files(leaf)
        ]

    for table in _patiently(look):
        for row in table.to_pylist():
            places = found.setdefault(row[names[0]], {})
            index, offset = str(row[names[1]]), row[f"{names[2]}_min"]
            places[index] = min(offset, places.get(index, offset))
    return found


def read_stretch(path: str, schema: pa.Schema, bounds: Bounds, stretch: Stretch) -> pa.Table:
    """Its rows, in the order of their offsets."""
    topic, index, offset = (_record_name(schema, name) for name in ("topic", "partition", "offset"))
    wanted = (
        (pc.field(topic) == stretch.topic)
        & (pc.field(index) == stretch.index)
        & (pc.field(offset) >= stretch.start)
        & (pc.field(offset) < stretch.end)
    )
    in_time = _in_time(schema, bounds)
    wanted = wanted if in_time is None else wanted & in_time

    def look() -> list[pa.Table]:
        return [
            _read_file(file.path, schema, wanted)
            for leaf in Lake(path).leaves()
            for file in Lake(path).files(leaf)
            if _overlaps(_offsets_of(str(file.path), offset), stretch)
        ]

    tables = _patiently(look)
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    return whole.sort_by(offset).combine_chunks()


def _patiently(look: Any) -> list[pa.Table]:
    for _ in range(LISTINGS):
        try:
            found: list[pa.Table] = look()
        except FileNotFoundError:
            continue
        return found
    raise InvalidRequest(
        f"files were gone {LISTINGS} times before they could be read: does someone delete them?"
    )


@lru_cache(maxsize=100_000)  # a file does not change, and its name is not used again
def _offsets_of(path: str, column: str) -> tuple[int, int] | None:
    """The least and the greatest offset in a file; None if it does not say."""
    about = parquet.read_metadata(path)
    if not about.num_row_groups:
        return None
    # Columns are counted with the parts of others in between: found by path.
    flat = [about.row_group(0).column(i).path_in_schema for i in range(about.num_columns)].index(column)
    found = [about.row_group(group).column(flat).statistics for group in range(about.num_row_groups)]
    if any(one is None or not one.has_min_max for one in found):
        return None
    return min(one.min for one in found), max(one.max for one in found)


def _overlaps(offsets: tuple[int, int] | None, stretch: Stretch) -> bool:
    return offsets is None or (offsets[0] < stretch.end and offsets[1] >= stretch.start)


def _read_file(path: Path, schema: pa.Schema, wanted: Any) -> pa.Table:
    """The rows of one file that are wanted, with the columns and types of `schema`. A stretch at a time: a
    file may be much larger than what is wanted of it."""
    told = _folder_values(path)
    found = []
    with parquet.ParquetFile(path) as file:
        stored = [name for name in file.schema_arrow.names if name in schema.names]
        for batch in file.iter_batches(columns=stored):
            arrays = [
                batch.column(one.name).cast(one.type)
                if one.name in stored
                else pa.repeat(pa.scalar(told.get(one.name), pa.string()), len(batch)).cast(one.type)
                for one in schema
            ]
            rows = pa.table(arrays, schema=schema)
            found.append(rows if wanted is None else rows.filter(wanted))
    return pa.concat_tables(found) if found else schema.empty_table()


def _folder_values(path: Path) -> Mapping[str, str | None]:
    pairs = (part.split("=", 1) for part in path.parts if "=" in part)
    return {unquote(name): None if value == _NO_VALUE else unquote(value) for name, value in pairs}


def _in_time(schema: pa.Schema, bounds: Bounds) -> Any:
    name = _record_name(schema, "timestamp")
    found = None
    if bounds.since_us is not None:
        found = pc.field(name) >= pa.scalar(bounds.since_us, schema.field(name).type)
    if bounds.until_us is not None:
        before = pc.field(name) < pa.scalar(bounds.until_us, schema.field(name).type)
        found = before if found is None else found & before
    return found


def _record_name(schema: pa.Schema, name: str) -> str:
    """Values with types have the record's columns behind an underscore."""
    return f"_{name}" if f"_{name}" in schema.names else name
