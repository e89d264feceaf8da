"""Batches of bytes become typed batches; records that cannot be read are set aside, or kept as nulls."""

import datetime

import pyarrow as pa
import pytest

from mainstem.model.errors import InvalidRequest
from mainstem.spark.formats import Format
from mainstem.spark.options import Options, keeps_bad
from mainstem.spark.typed import Typing

NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("_offset", pa.int64())])


def batch(*values):
    return pa.record_batch(
        {
            "key": pa.array([b"k"] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.array([NOON] * len(values), pa.timestamp("us", tz="UTC")),
        }
    )


def test_records_that_cannot_be_read_are_set_aside():
    typed, bad = Typing(Format("json"), SCHEMA, ["offset"]).apply(batch(b'{"id": 1}', b"oops", b'{"id": 3}'))

    assert typed.to_pylist() == [{"id": 1, "_offset": 0}, {"id": 3, "_offset": 2}]
    assert [one.offset for one in bad] == [1]


def test_records_that_cannot_be_read_are_rows_of_nulls_where_they_are_kept():
    typing = Typing(Format("json"), SCHEMA, ["offset"], keep_bad=True)

    typed, bad = typing.apply(batch(b"oops", b'{"id": 1}', b"[]", b'{"id": 3}'))

    assert typed.to_pylist() == [{"id": i, "_offset": at} for at, i in enumerate([None, 1, None, 3])]
    assert bad == []
    assert typing.apply(batch(b"x"))[0].to_pylist() == [{"id": None, "_offset": 0}]


def test_what_becomes_of_bad_records_is_one_of_two_words():
    assert keeps_bad(Options({"badRecords": "null"}))
    assert not keeps_bad(Options({}))
    with pytest.raises(InvalidRequest, match="send or null"):
        keeps_bad(Options({"badRecords": "drop"}))
