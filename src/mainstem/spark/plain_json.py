"""JSON values into Arrow columns by our own loop, where it is compiled and knows all that it meets."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from mainstem.spark.json_loop import DAY, REAL, TEXT, TIME, TRUTH, WHOLE, JsonColumns

_KINDS: dict[pa.DataType, int] = {
    pa.int8(): WHOLE,
    pa.int16(): WHOLE,
    pa.int32(): WHOLE,
    pa.int64(): WHOLE,
    pa.float64(): REAL,
    pa.string(): TEXT,
    pa.bool_(): TRUTH,
    pa.timestamp("us", tz="UTC"): TIME,
    pa.date32(): DAY,
}
_NOT_AS_IT_IS = re.compile(r'["\\\x00-\x1f]')  # in a name: written otherwise
_STEPS = {DAY: pa.int32()}  # on the way from 64 bits to the type


def read_plain(
    values: pa.Array, schema: pa.Schema, make: Callable[..., JsonColumns] = JsonColumns
) -> pa.Table | None:
    """The values as columns, in order; None if the loop does not know some of them, or one of the types.

    There must be no nulls. `make` is the loop, compiled or not.
    """
    kinds = [_KINDS.get(field.type, -1) for field in schema]
    if -1 in kinds or len(set(schema.names)) < len(schema) or _NOT_AS_IT_IS.search("".join(schema.names)):
        return None
    columns = make([name.encode() for name in schema.names], kinds, len(values))
    _, ends, data = values.buffers()
    mine = memoryview(ends).cast("i")[values.offset : values.offset + len(values) + 1]
    if not columns.fill(memoryview(data if data is not None else b"").cast("B"), mine):
        return None
    if not columns.is_ascii:
        values.cast(pa.string())  # refuses what is not UTF-8
    try:
        arrays = [
            _array(columns, at, kind, field.type)
            for at, (kind, field) in enumerate(zip(kinds, schema, strict=True))
        ]
    except pa.ArrowInvalid:  # a number that is too large for its type
        return None
    return pa.table(arrays, schema=schema)


def _array(columns: JsonColumns, at: int, kind: int, type: pa.DataType) -> pa.Array:
    valid = pa.py_buffer(columns.valid).slice(at * columns.stride, columns.stride)
    if kind == TEXT:
        ends, texts = columns.text(at)
        return pa.Array.from_buffers(type, columns.rows, [valid, pa.py_buffer(ends), pa.py_buffer(texts)])
    numbers = pa.py_buffer(columns.numbers).slice(at * 8 * columns.rows, 8 * columns.rows)
    if kind in (REAL, TIME):
        return pa.Array.from_buffers(type, columns.rows, [valid, numbers])
    whole = pa.Array.from_buffers(pa.int64(), columns.rows, [valid, numbers])
    return whole if type == pa.int64() else whole.cast(_STEPS.get(kind, type)).cast(type)
