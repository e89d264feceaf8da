"""Avro's types as Arrow's, as values are read, and as Spark's words. Pure.

    boolean int long float double string bytes    the same in Spark
    enum, uuid                                    STRING
    fixed, duration                               BINARY
    record, array, map                            STRUCT, ARRAY, MAP<STRING, ...>
    decimal                                       DECIMAL, of up to 38 digits
    date                                          DATE
    timestamp-millis, timestamp-micros            TIMESTAMP
    local-timestamp-millis, local-timestamp-micros  TIMESTAMP_NTZ
    time-millis, time-micros                      INT, BIGINT: the number
    a union with null                             the other type; [int, long] and [float, double] the wider

What Spark has no type for, or what a few bytes could make endless, is refused: other unions, a record inside
itself, a list of things that take no bytes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstem.model.errors import InvalidRequest

MOST_DIGITS = 38
_PLAIN = {
    "null": pa.string(),  # never anything but null
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_TIMES = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_WORDS = {
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
}
_WIDER = {
    frozenset({pa.int32(), pa.int64()}): pa.int64(),
    frozenset({pa.float32(), pa.float64()}): pa.float64(),
}


class Types:
    """`named` are the types that a schema names, by their full names."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def of(self, schema: Any, within: tuple[str, ...] = ()) -> pa.DataType:
        """`within` are the records around it."""
        if isinstance(schema, list):
            return self._union([one for one in schema if one != "null"], within)
        if isinstance(schema, str):
            return _PLAIN[schema] if schema in _PLAIN else self.of(self._named[schema], within)
        kind, logical = schema["type"], schema.get("logicalType", "")
        if not isinstance(kind, str):
            return self.of(kind, within)
        if kind in ("record", "error"):
            return self._record(schema, within)
        if kind == "array":
            if self._is_nothing(schema["items"]):
                raise InvalidRequest(
                    "avroSchema has a list of things that take no bytes, which has no bounds"
                )
            return pa.list_(self.of(schema["items"], within))
        if kind == "map":
            return pa.map_(pa.string(), self.of(schema["values"], within))
        if logical == "decimal":
            return _decimal(schema["precision"], schema.get("scale", 0))
        return _TIMES.get(logical) or _PLAIN[kind]

    def _union(self, others: list[Any], within: tuple[str, ...]) -> pa.DataType:
        found = {self.of(one, within) for one in others}
        if len(found) > 1:
            wider = _WIDER.get(frozenset(found))
            if wider is None:
                raise InvalidRequest(f"avroSchema has a union of {len(others)} types, which Spark has not")
            return wider
        return found.pop() if found else _PLAIN["null"]

    def _record(self, schema: dict[str, Any], within: tuple[str, ...]) -> pa.DataType:
        name = schema["name"]
        if name in within:
            raise InvalidRequest(f"avroSchema has a record {name!r} inside itself, which Spark has not")
        fields = schema["fields"]
        return pa.struct([pa.field(one["name"], self.of(one["type"], (*within, name))) for one in fields])

    def _is_nothing(self, schema: Any) -> bool:
        if isinstance(schema, str):
            return schema == "null" or (schema in self._named and self._is_nothing(self._named[schema]))
        if isinstance(schema, list):
            return False  # which of them it is takes a byte
        if schema["type"] == "record":
            return all(self._is_nothing(one["type"]) for one in schema["fields"])
        return bool(schema["type"] == "null" or schema.get("size") == 0)


def word_of(kind: pa.DataType) -> str:
    """In Spark's words."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_map(kind):
        return f"MAP<STRING, {word_of(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{word_of(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'`{field.name}`: {word_of(field.type)}' for field in kind)}>"
    return _WORDS[kind]


def _decimal(digits: int, scale: int) -> pa.DataType:
    if not scale <= digits <= MOST_DIGITS:
        raise InvalidRequest(f"avroSchema has a decimal of {digits} digits; Spark has up to {MOST_DIGITS}")
    return pa.decimal128(digits, scale)
