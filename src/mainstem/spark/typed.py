"""Record batches of bytes become record batches of typed columns; what cannot be read is set aside."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.spark.columns import DDL
from mainstem.spark.formats import Format, check_schema

if TYPE_CHECKING:
    from mainstem.spark.parsing import Bad

# What a bad record is found and sent on by, besides its value.
NEEDED = ("key", "value", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class BadRecord:
    key: bytes | None
    value: bytes | None
    offset: int
    timestamp_ms: int
    reason: str


class Typing:
    """Turns batches of `names` into batches of `schema`: the values' fields, then `_name` for metadata.

    `keep_bad`: a record that cannot be read is a row of nulls, so that reading has no effect on any topic.
    """

    def __init__(
        self, format: Format, schema: pa.Schema, metadata: Sequence[str], *, keep_bad: bool = False
    ) -> None:
        self._keep_bad = keep_bad
        self._format = format
        self._schema = schema
        self.metadata = tuple(metadata)
        self._fields = pa.schema(list(schema)[: len(schema) - len(self.metadata)])
        check_schema(format, self._fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it needs."""
        return (*NEEDED, *(name for name in self.metadata if name not in NEEDED))

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[BadRecord]]:
        from mainstem.spark.parsing import parse  # heavy, and only executors need it

        table, bad = parse(batch.column("value"), self._format, self._fields)
        if bad and self._keep_bad:
            table, bad = table.take(_places(len(batch), bad)), []
        records = [_bad_record(batch, one) for one in bad]
        rest = batch.take(_others(len(batch), bad)) if bad else batch
        columns = [_whole(column) for column in table.columns]
        columns += [rest.column(name) for name in self.metadata]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), records


def typed_ddl(fields: str, metadata: Sequence[str]) -> str:
    """A row in Spark's words; `fields` are those of the values."""
    return ", ".join([fields, *(f"_{name} {DDL[name]}" for name in metadata)])


def _bad_record(batch: pa.RecordBatch, bad: Bad) -> BadRecord:
    key, value, offset = (batch.column(name)[bad.row].as_py() for name in ("key", "value", "offset"))
    timestamp_us = batch.column("timestamp")[bad.row].value
    return BadRecord(key, value, offset, timestamp_us // 1000, bad.reason)


def _others(rows: int, bad: Sequence[Bad]) -> pa.Array:
    wrong = {one.row for one in bad}
    return pa.array([row for row in range(rows) if row not in wrong], pa.int32())


def _places(rows: int, bad: Sequence[Bad]) -> pa.Array:
    """For each row its place among the good ones; none for a bad one."""
    wrong = {one.row for one in bad}
    places = itertools.count()
    return pa.array([None if row in wrong else next(places) for row in range(rows)], pa.int64())


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
