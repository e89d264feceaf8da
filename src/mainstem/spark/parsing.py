"""Values in a format become typed columns, those that are text by Arrow's own parsers. Pure.

The values of a batch are joined by newlines and parsed in one go. That fails as a whole if one of them is
bad; then the values are parsed in halves until the bad ones stand alone, each with its reason, and the good
ones are kept. Plain JSON, which most of it is, is read by a loop of our own before that is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from mainstem.spark.avro import parse_avro
from mainstem.spark.formats import Format
from mainstem.spark.json_loop import COMPILED
from mainstem.spark.plain_json import read_plain

_ONE_BLOCK = 1 << 10  # room behind the values, so that all of them lie in one block

Parse = Callable[[pa.Array], pa.Table]


class Bad(NamedTuple):
    """A value that could not be read; `row` is its place in the batch."""

    row: int
    reason: str


def parse(values: pa.Array, format: Format, schema: pa.Schema) -> tuple[pa.Table, list[Bad]]:
    """The good values as columns of `schema`, in order, and the bad ones. A null is a row of nulls."""
    if format.name == "text":
        return _parsed(values, lambda some: _text(some, schema))
    if format.avro is not None:
        avro = format.avro
        return _parsed(values, lambda some: parse_avro(some, avro, schema))
    if format.name == "csv":
        return _parsed(values, lambda some: _csv(some, format, schema))
    return _parsed(values, lambda some: _json(some, schema))


def _parsed(values: pa.Array, parse_some: Parse) -> tuple[pa.Table, list[Bad]]:
    good: list[pa.Table] = []
    bad: list[Bad] = []
    # Stretches still to be parsed, the first on top.
    waiting = [(0, len(values))]
    while waiting:
        start, size = waiting.pop()
        try:
            good.append(parse_some(values.slice(start, size)))
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            if size == 1:
                bad.append(Bad(start, str(error)))
            else:
                half = size // 2
                waiting += [(start + half, size - half), (start, half)]
    return pa.concat_tables(good) if good else parse_some(values.slice(0, 0)), bad


def _joined(values: pa.Array, separator: bytes) -> memoryview:
    joined = pc.binary_join(pa.LargeListArray.from_arrays([0, len(values)], values), separator)
    return memoryview(joined.buffers()[2])


def _json(values: pa.Array, schema: pa.Schema) -> pa.Table:
    if not len(values):
        return schema.empty_table()
    filled = pc.fill_null(values, b"{}") if values.null_count else values
    found = read_plain(filled, schema) if COMPILED else None
    return any_json(filled, schema) if found is None else found


def any_json(filled: pa.Array, schema: pa.Schema) -> pa.Table:
    # Arrow's parser takes a date for a number of days; people write it as text.
    read = pa.schema(
        [pa.field(field.name, pa.string()) if pa.types.is_date(field.type) else field for field in schema]
    )
    filled.cast(pa.string())  # refuses what is not UTF-8; Arrow's parser takes it for text
    table = _plain_json(filled, read) if _are_objects(filled) else _wrapped_json(filled, read)
    return table.cast(schema) if read != schema else table


def _are_objects(values: pa.Array) -> bool:
    """Whether each begins and ends like an object. Then none can go on in the next: behind a closed brace no
    other may open, and no string spans a line. So each makes a row at least, or all of them are refused."""
    return bool(pc.all(pc.and_(pc.starts_with(values, b"{"), pc.ends_with(values, b"}"))).as_py())


def _plain_json(values: pa.Array, schema: pa.Schema) -> pa.Table:
    return _same_rows(_read_json(_joined(values, b"\n"), schema), values)


# Others stand alone in a list each, so that what is none, or two, or ends early cannot shift those behind it.
_OPEN, _CLOSE = b'{"v":[', b"]}"


def _wrapped_json(values: pa.Array, schema: pa.Schema) -> pa.Table:
    data = b"".join((_OPEN, _joined(values, _CLOSE + b"\n" + _OPEN), _CLOSE))
    table = _read_json(data, pa.schema([pa.field("v", pa.list_(pa.struct(list(schema))))]))
    lists = _same_rows(table, values).column("v").combine_chunks()
    if lists.null_count or pc.min_max(pc.list_value_length(lists)).as_py() != {"min": 1, "max": 1}:
        raise pa.ArrowInvalid("not exactly one JSON object")
    return pa.table(lists.flatten().flatten(), schema=schema)


def _read_json(data: bytes | memoryview, schema: pa.Schema) -> pa.Table:
    return json.read_json(
        pa.BufferReader(data),
        read_options=json.ReadOptions(use_threads=False, block_size=len(data) + _ONE_BLOCK),
        parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _csv(values: pa.Array, format: Format, schema: pa.Schema) -> pa.Table:
    if not len(values):
        return schema.empty_table()
    # A line break, or a quote that stays open, would shift the values behind it.
    if pc.any(pc.greater_equal(pc.find_substring_regex(values, r"[\r\n]"), 0)).as_py():
        raise pa.ArrowInvalid("a line break in a value")
    if pc.any(pc.equal(pc.bit_wise_and(pc.count_substring(values, b'"'), 1), 1)).as_py():
        raise pa.ArrowInvalid("a quote that is not closed")
    empty = format.delimiter.encode() * (len(schema) - 1)
    data = _joined(pc.fill_null(values, empty) if values.null_count else values, b"\n")
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(
            use_threads=False, block_size=len(data) + _ONE_BLOCK, column_names=schema.names
        ),
        parse_options=csv.ParseOptions(delimiter=format.delimiter, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        ),
    )
    return _same_rows(table, values)


def _text(values: pa.Array, schema: pa.Schema) -> pa.Table:
    return pa.table([values.cast(pa.string())], schema=schema)


def _same_rows(table: pa.Table, values: pa.Array) -> pa.Table:
    """A value that makes several rows shifts all that follow: then each is tried alone."""
    if table.num_rows != len(values):
        raise pa.ArrowInvalid(f"{table.num_rows} rows in {len(values)} values")
    return table
