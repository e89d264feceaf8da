"""Records of a batch as changes of a table: one for each key, the last. Pure.

A value is a row, a null value deletes the row that the record's key names. What cannot be read is set aside
with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO

import pyarrow as pa
from pyarrow import csv

from mainstem.spark.formats import Format
from mainstem.spark.parsing import parse

RAW = ("key", "value", "partition", "offset", "timestamp")

Key = tuple[object, ...]
Place = tuple[int, int]  # of a record: partition and offset


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows are known by their numbers in the batch; `place` tells which records they are."""

    upserts: pa.Table
    upsert_rows: Sequence[int]
    deletes: pa.Table  # of keys
    delete_rows: Sequence[int]
    bad: Sequence[tuple[int, str]]
    place: Callable[[int], Place]


def changes_of(
    batch: pa.Table, format: Format, fields: pa.Schema, keys: Sequence[str], *, deletes: bool
) -> Changes:
    """`batch` has the columns RAW, in the order of offsets in each partition."""
    values = batch.column("value").combine_chunks()
    present = [row for row, is_there in enumerate(values.is_valid().to_pylist()) if is_there]
    table, unread = parse(values.take(pa.array(present, pa.int64())), format, fields)
    bad = [(present[one.row], one.reason) for one in unread]
    wrong = {one.row for one in unread}
    rows = [row for at, row in enumerate(present) if at not in wrong]

    def place(row: int) -> Place:
        return batch.column("partition")[row].as_py(), batch.column("offset")[row].as_py()

    if not keys:
        return Changes(table, rows, _key_table([], fields, keys), [], sorted(bad), place)
    last: dict[Key, int] = {}
    upserted: dict[int, int] = {}  # the place in `table` by row
    for at, (row, key) in enumerate(zip(rows, _keys(table, keys), strict=True)):
        if None in key:
            bad.append((row, f"{keys[key.index(None)]!r}, of the key, is missing"))
        else:
            upserted[row] = at
            last[key] = row
    for row in _tombstones(values) if deletes else ():
        try:
            key = tombstone_key(batch.column("key")[row].as_py(), fields, keys)
        except (ValueError, RecursionError) as error:
            bad.append((row, str(error)))
        else:
            last[key] = max(row, last.get(key, row))
    kept = sorted(last.items(), key=lambda item: item[1])
    upserts = [(row, upserted[row]) for _, row in kept if row in upserted]
    removed = [(row, key) for key, row in kept if row not in upserted]
    return Changes(
        table.take(pa.array([at for _, at in upserts], pa.int64())),
        [row for row, _ in upserts],
        _key_table([key for _, key in removed], fields, keys),
        [row for row, _ in removed],
        sorted(bad),
        place,
    )


def _keys(table: pa.Table, keys: Sequence[str]) -> list[Key]:
    return list(zip(*(table.column(key).to_pylist() for key in keys), strict=True))


def _tombstones(values: pa.Array) -> list[int]:
    return [row for row, is_null in enumerate(values.is_null().to_pylist()) if is_null]


def tombstone_key(key: bytes | None, fields: pa.Schema, keys: Sequence[str]) -> Key:
    """The key of a row from that of a record: `17`, `"a"` or `{"id": 17}`; ValueError if it is none."""
    if key is None:
        raise ValueError("a null value without a key: nothing tells which row is to be deleted")
    text = key.decode()  # a UnicodeDecodeError is a ValueError
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):  # the latter: brackets in brackets, a thousand deep
        told = None
    if isinstance(told, dict):
        missing = [name for name in keys if told.get(name) is None]
        if missing:
            raise ValueError(f"{missing[0]!r}, of the key, is missing in {text}")
        texts = [_text(told[name]) for name in keys]
    elif len(keys) == 1:
        texts = [told if isinstance(told, str) else text]
    else:
        raise ValueError(f"the key is {', '.join(keys)}, and {text!r} is not an object with these")
    return tuple(_cast(text, fields.field(name)) for name, text in zip(keys, texts, strict=True))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _cast(text: str, field: pa.Field) -> object:
    try:
        return pa.scalar(text).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"{text!r} is not a {field.type} for {field.name!r}") from None


def _key_table(found: Sequence[Key], fields: pa.Schema, keys: Sequence[str]) -> pa.Table:
    schema = pa.schema([fields.field(name) for name in keys])
    columns = zip(*found, strict=True) if found else [()] * len(keys)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def csv_of(table: pa.Table) -> bytes:
    """For COPY: nothing is null, "" is an empty text. Bytes are in hex, lists and structures in JSON."""
    columns = [_plain(column) for column in table.columns]
    made = BytesIO()
    csv.write_csv(pa.table(columns, names=table.column_names), made, csv.WriteOptions(include_header=False))
    return made.getvalue()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_binary(column.type):
        return pa.array(
            [None if one is None else f"\\x{one.hex()}" for one in column.to_pylist()], pa.string()
        )
    if pa.types.is_nested(column.type):
        dumped = (None if one is None else json.dumps(one, default=str) for one in column.to_pylist())
        return pa.array(list(dumped), pa.string())
    return column
