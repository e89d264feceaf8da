"""Avro values become typed columns. Pure.

Avro's bytes tell nothing about themselves: they are read with the schema that they were written with, or not
at all. There is no registry; values that begin with the five bytes of Confluent's (a zero and the number of
a schema) are read without them.

fastavro reads the values, and Arrow makes columns of them. Times are left numbers on the way, which Arrow
takes as they are; only decimals become objects of their own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow as pa

from mainstem.model.errors import InvalidRequest
from mainstem.spark.avro_types import Types, word_of

FRAMINGS = {"plain": 0, "confluent": 5}  # bytes before a value
MAGIC = 0
# What fastavro raises on bytes that are no value of the schema.
_BROKEN = (EOFError, ValueError, IndexError, KeyError, TypeError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class Avro:
    """How values are written; `schema` is JSON."""

    schema: str
    framing: str = "plain"

    def __post_init__(self) -> None:
        if self.framing not in FRAMINGS:
            raise InvalidRequest(f"avroFraming is one of {', '.join(FRAMINGS)}, not {self.framing!r}")


def ddl_of_avro(schema: str) -> str:
    """The fields of a record, in Spark's words."""
    return ", ".join(f"`{field.name}` {word_of(field.type)}" for field in reader_of(schema).fields)


def parse_avro(values: pa.Array, avro: Avro, schema: pa.Schema) -> pa.Table:
    """Columns of `schema`, which may be some of what the values have. The first bad value is an error."""
    reader = reader_of(avro.schema)
    rows = [reader.read(value, avro) for value in values.to_pylist()]
    columns = [
        pa.array([None if row is None else row[field.name] for row in rows], reader.type_of(field.name))
        for field in schema
    ]
    return pa.table(columns, schema.names).cast(schema)


class Reader:
    """Reads values of one schema."""

    def __init__(self, text: str) -> None:
        # Here, so that workers which read no Avro start without it.
        from fastavro import parse_schema, schemaless_reader
        from fastavro.schema import SchemaParseException, UnknownType

        self._read = schemaless_reader
        try:
            given = json.loads(text)
            parsed = parse_schema(given)
            self._schema = parse_schema(_plain(given))
        except (ValueError, SchemaParseException, UnknownType) as error:
            raise InvalidRequest(f"avroSchema is not a schema in JSON: {error}") from None
        named = parsed.get("__named_schemas", {}) if isinstance(parsed, dict) else {}
        root = Types(named).of(parsed)
        if not pa.types.is_struct(root):
            raise InvalidRequest("avroSchema is a record, whose fields are the columns")
        self.fields: tuple[pa.Field, ...] = tuple(root)

    def type_of(self, name: str) -> pa.DataType:
        """What its values are read as."""
        for field in self.fields:
            if field.name == name:
                return field.type
        names = [field.name for field in self.fields]
        near = get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
        raise InvalidRequest(f"avroSchema has no field {name!r}{hint}")

    def check(self, field: pa.Field) -> None:
        """Whether there is such a field, and whether it can be had as that type."""
        held = self.type_of(field.name)
        try:
            pa.array([], held).cast(field.type)
        except pa.ArrowNotImplementedError:
            raise InvalidRequest(
                f"{field.name!r} is {word_of(held)} in avroSchema, not {field.type}"
            ) from None

    def read(self, value: bytes | None, avro: Avro) -> dict[str, object] | None:
        if value is None:
            return None
        skipped = FRAMINGS[avro.framing]
        if skipped and (len(value) < skipped or value[0] != MAGIC):
            raise pa.ArrowInvalid("it does not begin with a zero and the number of a schema")
        data = BytesIO(value)
        data.seek(skipped)
        try:
            row: dict[str, object] = self._read(data, self._schema, None)
        except _BROKEN as error:
            raise pa.ArrowInvalid(
                f"not a value of the Avro schema: {error or type(error).__name__}"
            ) from None
        if data.tell() != len(value):
            raise pa.ArrowInvalid(f"{len(value) - data.tell()} bytes follow the value of the Avro schema")
        return row


# One for each schema of a process: tasks come and go.
reader_of = lru_cache(maxsize=16)(Reader)


def _plain(schema: Any) -> Any:
    """Without logical types other than decimal: then times are numbers."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: _plain(value) for name, value in schema.items()}
    if kept.get("logicalType") != "decimal":
        kept.pop("logicalType", None)
    return kept
