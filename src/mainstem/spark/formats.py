"""How values are written, and which types a format has. Each query asks for it when it starts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from mainstem.model.errors import InvalidRequest
from mainstem.spark.avro import Avro, reader_of

FORMATS = ("raw", "text", "json", "csv", "avro")


@dataclass(frozen=True, slots=True)
class Format:
    """How values are written. A csv value is one line, without a head."""

    name: str
    delimiter: str = ","
    avro: Avro | None = None

    def __post_init__(self) -> None:
        if self.name not in FORMATS:
            raise InvalidRequest(f"format is one of {', '.join(FORMATS)}, not {self.name!r}")
        if len(self.delimiter) != 1:
            raise InvalidRequest(f"delimiter is one character, not {self.delimiter!r}")


def check_schema(format: Format, schema: pa.Schema) -> None:
    """Whether the format has values of these types."""
    if format.name == "text" and schema.types != [pa.string()]:
        raise InvalidRequest("text is one field of type STRING")
    if format.avro is not None:
        for field in schema:
            reader_of(format.avro.schema).check(field)
        return
    maps = [str(field.type) for field in schema if _has_map(field.type)]
    if maps:
        raise InvalidRequest(f"{maps[0]} cannot be read from {format.name}; use STRING and convert it")
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if format.name == "csv" and nested:
        raise InvalidRequest(f"csv has no lists and structures; {nested[0]!r} is one")


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(index).type) for index in range(kind.num_fields))
