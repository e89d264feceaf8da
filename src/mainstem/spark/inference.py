"""The fields of JSON values, from a look at some of them. On the driver, where no schema was given."""

from __future__ import annotations

import re
from json import loads

import pyarrow as pa
from pyarrow import json

from mainstem.client.client import EARLIEST, Client
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest
from mainstem.spark.options import Bound, Topics
from mainstem.spark.planning import find_places, positions

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")
SAMPLE = 1000  # values, of as many partitions as it takes
FETCH_BYTES = 1 << 20
_WORDS = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.bool_(): "BOOLEAN",
    pa.null(): "STRING",
}


def infer_ddl(settings: ClientSettings, topics: Topics) -> str:
    fields = infer_fields(_sample(settings, topics))
    if not fields:
        raise InvalidRequest(
            "schema is missing, and there is no JSON to tell it from: give it, as in 'id BIGINT, at DATE'"
        )
    return ", ".join(f"{_quoted(name)} {kind}" for name, kind in fields.items())


def infer_fields(values: list[bytes]) -> dict[str, str]:
    """The types of the fields, in Spark's words."""
    fields = {field.name: _word(field.type) for field in _fields_of(values)}
    for name, is_time in _times(values).items():
        if fields.get(name) in ("STRING", "TIMESTAMP"):
            fields[name] = "TIMESTAMP" if is_time else "STRING"
    return fields


def _times(values: list[bytes]) -> dict[str, bool]:
    """Whether a field is a time wherever it is there. Arrow knows no times with a part of a second."""
    always: dict[str, bool] = {}
    for value in values:
        try:
            row = loads(value)
        except (ValueError, RecursionError):
            continue
        for name, one in row.items() if isinstance(row, dict) else ():
            if one is not None:
                is_time = isinstance(one, str) and _TIME.fullmatch(one) is not None
                always[name] = always.get(name, True) and is_time
    return always


def _sample(settings: ClientSettings, topics: Topics) -> list[bytes]:
    found: list[bytes] = []
    with Client(settings) as client:
        places = find_places(client, topics)
        for place, offset in positions(client, places, Bound(EARLIEST)).items():
            (fetched,) = client.fetch({place: offset}, max_wait_ms=0, partition_max_bytes=FETCH_BYTES)
            found += [record.value for record in fetched.check().decoded() if record.value]
            if len(found) >= SAMPLE:
                break
    return found[:SAMPLE]


def _fields_of(values: list[bytes]) -> list[pa.Field]:
    """Of the values that can be read; bad ones have no say."""
    seen: pa.Schema | None = None
    for value in values:
        try:
            value.decode()
            schema = json.read_json(pa.BufferReader(value)).schema
            seen = schema if seen is None else pa.unify_schemas([seen, schema], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError):
            continue
    return list(seen) if seen is not None else []


def _word(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    if pa.types.is_list(kind):
        return f"ARRAY<{_word(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {_word(field.type)}' for field in kind)}>"
    return _WORDS.get(kind, "STRING")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
