"""Avro values become columns: every type, every wrong byte, within bounds."""

import datetime
import decimal
import io
import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import InvalidRequest
from mainstem.spark.avro import Avro, ddl_of_avro, reader_of
from mainstem.spark.formats import Format, check_schema
from mainstem.spark.parsing import parse

UTC = datetime.UTC


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


ALL = record(
    ("flag", "boolean"),
    ("id", "long"),
    ("small", "int"),
    ("ratio", "float"),
    ("amount", ["null", "double"]),
    ("name", ["string", "null"]),
    ("raw", "bytes"),
    ("region", {"type": "enum", "name": "Region", "symbols": ["north", "south"]}),
    ("other", ["null", "Region"]),
    ("mac", {"type": "fixed", "name": "Mac", "size": 6}),
    ("price", logical("bytes", "decimal", precision=9, scale=2)),
    ("day", logical("int", "date")),
    ("ms", logical("long", "timestamp-millis")),
    ("us", ["null", logical("long", "timestamp-micros")]),
    ("local", logical("long", "local-timestamp-millis")),
    ("clock", logical("int", "time-millis")),
    ("uuid", logical("string", "uuid")),
    ("wide", ["int", "long", "null"]),
    ("tags", {"type": "array", "items": ["null", "string"]}),
    ("counts", {"type": "map", "values": logical("long", "timestamp-millis")}),
    ("line", ["null", record(("at", logical("long", "timestamp-millis")), ("n", "int"), name="Line")]),
    ("lines", {"type": "array", "items": "Line"}),
)
AT = datetime.datetime(2024, 5, 1, 10, 0, 0, 123000, tzinfo=UTC)
ROW = {
    "flag": True,
    "id": -(2**63),
    "small": 7,
    "ratio": 0.5,
    "amount": 1.25,
    "name": None,
    "raw": b"\x00\xff",
    "region": "south",
    "other": "north",
    "mac": b"abcdef",
    "price": decimal.Decimal("-1234567.89"),
    "day": datetime.date(2024, 5, 1),
    "ms": AT,
    "us": AT.replace(microsecond=123456),
    "local": AT.replace(tzinfo=None),
    "clock": 3_600_000,
    "uuid": "0b4d8a2e-2f0e-4f43-8a53-7d0b38d5a9a1",
    "wide": 2**40,
    "tags": ["a", None],
    "counts": [("x", AT)],
    "line": {"at": AT, "n": 1},
    "lines": [{"at": AT, "n": 2}],
}


def written(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def format_of(schema, framing="plain"):
    return Format("avro", avro=Avro(json.dumps(schema), framing))


def read(schema, values, framing="plain", arrow=None):
    if arrow is None:
        arrow = pa.schema(
            [pa.field(one.name, in_spark(one.type)) for one in reader_of(json.dumps(schema)).fields]
        )
    return parse(pa.array(values, pa.binary()), format_of(schema, framing), arrow)


def in_spark(kind):
    """The same type with times in microseconds, as Spark wants them."""
    text = pa.array([], kind)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), in_spark(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(in_spark(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, in_spark(one.type)) for one in kind])
    return text.type


def test_every_type_is_read():
    given = {**ROW, "clock": datetime.time(1), "counts": {"x": AT}}
    table, bad = read(ALL, [written(ALL, given), None])
    assert bad == []
    first, second = table.to_pylist()
    assert first == ROW
    assert set(second.values()) == {None}


def test_types_are_told_in_sparks_words():
    ddl = ddl_of_avro(json.dumps(ALL))
    for part in (
        "`id` BIGINT",
        "`region` STRING, `other` STRING, `mac` BINARY, `price` DECIMAL(9, 2), `day` DATE, `ms` TIMESTAMP",
        "`local` TIMESTAMP_NTZ, `clock` INT",
        "`wide` BIGINT, `tags` ARRAY<STRING>, `counts` MAP<STRING, TIMESTAMP>",
        "`line` STRUCT<`at`: TIMESTAMP, `n`: INT>",
    ):
        assert part in ddl


SMALL = record(("id", "long"), ("name", ["null", "string"]))
ID_NAME = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
WRONG = (b"", b"\xff" * 12, b"\x02", b"\x02\x04", b"\x02\x02\x7e", b"\x02\x02\x02\xff", b"\x02\x00more")


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5)) | st.sampled_from(WRONG),
        max_size=40,
    )
)
def test_good_values_are_kept_and_bad_ones_named(given):
    values = [
        one if isinstance(one, bytes) else written(SMALL, {"id": one[0], "name": one[1]}) for one in given
    ]
    table, bad = read(SMALL, values, arrow=ID_NAME)
    assert list(zip(*table.to_pydict().values(), strict=True)) == [
        one for one in given if not isinstance(one, bytes)
    ]
    assert [one.row for one in bad] == [row for row, one in enumerate(given) if isinstance(one, bytes)]
    assert all("Avro schema" in one.reason for one in bad)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_value_or_a_bad_record(data):
    for cut in (data, written(ALL, {**ROW, "clock": datetime.time(1), "counts": {}})[: len(data)] + data):
        table, bad = read(ALL, [cut])
        assert table.num_rows + len(bad) == 1


def test_a_length_that_lies_takes_no_memory():
    schema = record(("s", "string"), ("a", {"type": "array", "items": "int"}))
    huge = b"\xfe\xff\xff\xff\xff\xff\xff\x7f"  # 2 ** 54 and more
    _, bad = read(schema, [huge, b"\x00" + huge, b"\x00" + b"\x01" + huge])
    assert [one.row for one in bad] == [0, 1, 2]


def test_the_bytes_of_a_registry_are_skipped_if_they_are_there():
    value = written(SMALL, {"id": 5, "name": "x"})
    table, bad = read(SMALL, [b"\x00\x00\x00\x00\x07" + value, value, b"\x00"], "confluent", ID_NAME)
    assert table.to_pylist() == [{"id": 5, "name": "x"}]
    assert [one.row for one in bad] == [1, 2]


def test_some_of_the_fields_can_be_read_and_as_wider_types():
    arrow = pa.schema([pa.field("name", pa.string()), pa.field("id", pa.float64())])
    table, _ = read(SMALL, [written(SMALL, {"id": 5, "name": "x"})], arrow=arrow)
    assert table.to_pylist() == [{"name": "x", "id": 5.0}]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (pa.field("nmae", pa.string()), "no field 'nmae'; did you mean 'name'"),
        (pa.field("id", pa.list_(pa.int8())), "'id' is BIGINT in avroSchema"),
    ],
)
def test_a_field_that_is_not_there_is_refused(field, message):
    with pytest.raises(InvalidRequest, match=message):
        check_schema(format_of(SMALL), pa.schema([field]))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not a schema in JSON"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "lng"}]}', "not a schema in JSON"),
        ('"string"', "is a record"),
        (json.dumps(record(("a", {"type": "array", "items": "null"}))), "take no bytes"),
        (json.dumps(record(("a", {"type": "array", "items": record(name="E")}))), "take no bytes"),
        (json.dumps(record(("next", ["null", "R"]))), "inside itself"),
        (json.dumps(record(("a", ["int", "string"]))), "union of 2 types"),
        (json.dumps(record(("a", logical("bytes", "decimal", precision=50, scale=2)))), "50 digits"),
    ],
)
def test_a_schema_that_cannot_be_had_is_refused(schema, message):
    with pytest.raises(InvalidRequest, match=message):
        reader_of(schema)


def test_framing_is_one_of_two():
    with pytest.raises(InvalidRequest, match="avroFraming is one of plain, confluent, not 'glue'"):
        Avro("{}", "glue")
