"""Fetched batches as Arrow record batches: the columns of Spark's own Kafka connector, exactly typed.

Spark checks the types of the first batch only and then believes: binary must be plain binary, timestamps
microseconds in UTC, fields nullable, in the order of the schema. No Python object is made per record, but for
headers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa

from mainstem.client.cluster import Fetched
from mainstem.model.batch import BatchHeader
from mainstem.model.errors import InvalidRequest
from mainstem.model.record_loop import Columns
from mainstem.model.records import open_records

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(HEADER),
}
# The same in Spark's words.
DDL = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
PLAIN = tuple(name for name in TYPES if name != "headers")
# A record batch has about so many rows, or so many bytes of keys and values: small enough to stay in a CPU's
# cache on its way to Spark, large enough that its own cost does not count.
ROWS = 20_000
BYTES = 4 << 20
CREATE_TIME, APPEND_TIME = 0, 1
# Whoever takes a record batch holds it until he has the next one.
GIVEN = 3


def names_of(wanted: Sequence[str], with_headers: bool) -> tuple[str, ...]:
    """The columns of a row, in order; `wanted` is empty for all."""
    if not wanted:
        return (*PLAIN, "headers") if with_headers else PLAIN
    for name in wanted:
        if name not in TYPES:
            raise InvalidRequest(f"there is no column {name!r}; there are {', '.join(TYPES)}")
    if len(set(wanted)) < len(wanted):
        raise InvalidRequest("columns names one of them twice")
    return tuple(wanted)


def ddl_of(names: Sequence[str]) -> str:
    return ", ".join(f"{name} {DDL[name]}" for name in names)


class Collector:
    """Takes what was fetched of one partition and gives record batches of a good size."""

    def __init__(self, topic: str, partition: int, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._schema = pa.schema([pa.field(name, TYPES[name]) for name in names])
        self._topic = pa.scalar(topic, pa.string())
        self._partition = pa.scalar(partition, pa.int32())
        self._with_headers = "headers" in self._names
        self._columns = Columns(ROWS, self._with_headers)
        self._given: deque[Columns] = deque(maxlen=GIVEN)
        self._kind = CREATE_TIME

    def add(self, fetched: Fetched, stop: int, committed: bool) -> Iterator[pa.RecordBatch]:
        """Records from the offset that was fetched on to below `stop`."""
        for batch in fetched.batches(committed=committed):
            header, data = open_records(batch)
            if header.base_offset >= stop:
                return
            kind = APPEND_TIME if header.is_log_append_time else CREATE_TIME
            if self._columns.rows and not self._fits(header, kind):
                yield self._flush()
            if header.record_count > self._columns.capacity:
                self._columns = Columns(header.record_count, self._with_headers)
            self._kind = kind
            self._columns.add(
                data,
                header.record_count,
                (header.base_offset, header.last_offset_delta, header.base_timestamp_ms),
                header.max_timestamp_ms if kind == APPEND_TIME else None,
                fetched.offset,
                stop,
            )

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What is not yet given."""
        if self._columns.rows:
            yield self._flush()

    def _fits(self, header: BatchHeader, kind: int) -> bool:
        columns = self._columns
        full = columns.held_bytes >= BYTES or columns.rows + header.record_count > columns.capacity
        return not full and kind == self._kind

    def _flush(self) -> pa.RecordBatch:
        columns = self._columns
        self._columns = self._empty()
        self._given.append(columns)
        arrays = [self._array(name, columns) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _empty(self) -> Columns:
        """Those that were given away first and are not used any more, or new ones."""
        if self._given and self._given[0].clear():
            columns = self._given.popleft()
            if columns.capacity == ROWS and len(columns.values) + len(columns.keys) <= 4 * BYTES:
                return columns
        # What follows is alike most of the time; to grow is to copy.
        return Columns(ROWS, self._with_headers, min(len(self._columns.values), 2 * BYTES))

    def _array(self, name: str, columns: Columns) -> pa.Array:
        rows = columns.rows
        match name:
            case "key":
                return _binary(columns.keys, columns.key_end_data, columns.key_valid, rows, columns.null_keys)
            case "value":
                ends, valid = columns.value_end_data, columns.value_valid
                return _binary(columns.values, ends, valid, rows, columns.null_values)
            case "offset":
                return pa.Array.from_buffers(TYPES[name], rows, [None, pa.py_buffer(columns.offset_data)])
            case "timestamp":
                return pa.Array.from_buffers(TYPES[name], rows, [None, pa.py_buffer(columns.time_data)])
            case "topic":
                return pa.repeat(self._topic, rows)
            case "partition":
                return pa.repeat(self._partition, rows)
            case "timestampType":
                return pa.repeat(pa.scalar(self._kind, pa.int32()), rows)
            case _:
                # None where there are none, as Spark's connector has it.
                return pa.array([list(found) or None for found in columns.headers], TYPES[name])


def _binary(data: bytearray, ends: bytearray, valid: bytearray, rows: int, nulls: int) -> pa.Array:
    buffers = [pa.py_buffer(valid) if nulls else None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)
