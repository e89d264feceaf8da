"""Our own loop over JSON and Arrow's parser agree: what the loop takes, Arrow reads in the same way."""

import datetime
import importlib.util
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainstem.spark import json_loop
from mainstem.spark.parsing import any_json
from mainstem.spark.plain_json import read_plain

SCHEMA = pa.schema(
    [
        pa.field("i", pa.int64()),
        pa.field("small", pa.int8()),
        pa.field("d", pa.float64()),
        pa.field("s", pa.string()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
        pa.field("ü", pa.string()),
    ]
)


def plain_loop():
    """The source, uncompiled, whether or not the compiled module is there."""
    source = Path(json_loop.__file__).parent / "json_loop.py"
    spec = importlib.util.spec_from_file_location("plain_json_loop", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOOPS = (json_loop.JsonColumns, plain_loop().JsonColumns)


def by_arrow(values):
    try:
        return any_json(values, SCHEMA)
    except pa.ArrowInvalid:
        return None


def by_loop(values, loop):
    try:
        return read_plain(values, SCHEMA, loop)
    except pa.ArrowInvalid:  # not UTF-8
        return None


def check(*values):
    """The table of the loop, if it read them. Both forms of it are the same, and Arrow's is too."""
    array = pa.array(values, pa.binary())
    compiled, plain = (by_loop(array, loop) for loop in LOOPS)
    assert (compiled is None) == (plain is None)
    if compiled is None or plain is None:
        return None
    for table in (compiled, plain):
        table.validate(full=True)
        expected = by_arrow(array)
        assert expected is not None
        assert table.schema == expected.schema == SCHEMA
        for name in SCHEMA.names:  # as bits, so that -0.0 is not 0.0
            assert repr(raw(table, name)) == repr(raw(expected, name)), name
    return compiled


def raw(table, name):
    """As Python has it, but for times, of which Python has fewer."""
    column = table.column(name)
    return (column.cast(pa.int64()) if name == "t" else column).to_pylist()


READ = (
    b'{"i":1,"s":"a"}',
    b"{}",
    b' { "i" : 1 ,\t"s" : "a" } ',
    b'{"s":"a","i":2}',
    b'{"i":null,"s":null,"d":null,"t":null,"b":null,"day":null,"small":null}',
    b'{"i":9223372036854775807}',
    b'{"i":-9223372036854775807}',
    b'{"i":-0,"d":-0}',
    b'{"small":-128}',
    b'{"d":1e-7}',
    b'{"d":1E+22}',
    b'{"d":0.30000000000000004}',
    b'{"d":123456789012345678901234567890}',
    b'{"d":2.2250738585072014e-30}',
    b'{"b":true}',
    b'{"b":false}',
    b'{"s":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\u0000"}',
    b'{"s":"\x7f"}',
    '{"s":"ä€😀","ü":"ö"}'.encode(),
    b'{"t":"2024-05-01T10:00:00Z"}',
    b'{"t":"2024-05-01 10:00:00.5"}',
    b'{"t":"2024-02-29T23:59:59.123456+05:30"}',
    b'{"t":"1900-03-01T00:00:00-01:00"}',
    b'{"t":"0001-01-01T00:00:00Z"}',
    b'{"t":"9999-12-31T23:59:59.999999Z"}',
    b'{"day":"2024-02-29"}',
    b'{"day":"1969-12-31"}',
    b'{"other":[1,-2.5e3,"x\\u0041",{"a":{},"b":[ ]},true,false,null],"i":3}',
    b'{"other":1,"other":2,"":3}',
)
LEFT = (
    b"",
    b"x",
    b"[1]",
    b"null",
    b'{"i":1',
    b'{"i":1}}',
    b'{"i":1}{"i":2}',
    b'{"i":1,}',
    b'{"i":1 "s":"a"}',
    b'{"i":1,"i":2}',
    b'{"\\u0069":1}',
    b'{"i":01}',
    b'{"i":1.0}',
    b'{"i":1e3}',
    b'{"i":"1"}',
    b'{"i":+1}',
    b'{"i":9223372036854775808}',
    b'{"small":128}',
    b'{"d":1e400}',
    b'{"d":NaN}',
    b'{"d":1.}',
    b'{"d":.5}',
    b'{"d":-}',
    b'{"d":1e}',
    b'{"b":tru}',
    b'{"b":1}',
    b'{"s":1}',
    b'{"s":"a',
    b'{"s":"\\',
    b'{"s":"\\x"}',
    b'{"s":"\\u12"}',
    b'{"s":"\\ud83d\\ude00"}',
    b'{"s":"\\ud83d"}',
    b'{"s":"\t"}',
    b'{"s":"\xff"}',
    b'{"t":"2024-05-01T10:00:60Z"}',
    b'{"t":"2024-02-30T10:00:00Z"}',
    b'{"t":"2024-05-01T10:00:00.Z"}',
    b'{"t":"2024-05-01T10:00:00.1234567Z"}',
    b'{"t":"2024-05-01T10:00:00+24:00"}',
    b'{"t":"2024-05-01T10:00:00Z "}',
    b'{"t":"2024-05-01"}',
    b'{"t":"0000-01-01T00:00:00Z"}',
    b'{"t":17}',
    b'{"day":"2023-02-29"}',
    b'{"day":"2024-02-29 "}',
    b'{"day":"2024-2-9"}',
    b'{"day":""}',
    b'{"other":[1,],"i":3}',
    b'{"other":{"a"},"i":3}',
    b'{"other":01,"i":3}',
    b'{"other":1e999,"i":3}',
    b'{"other":"\\ud83d","i":3}',
    b'{"i":\n1}',
    b'{"other":' + b"[" * 100 + b"]" * 100 + b"}",
)


@pytest.mark.parametrize("value", READ)
def test_plain_values_are_read_as_arrow_reads_them(value):
    assert check(value) is not None


@pytest.mark.parametrize("value", LEFT)
def test_what_is_wrong_or_rare_is_left_to_arrow(value):
    assert check(value) is None
    assert check(b'{"i":1}', value) is None
    assert check(value, b'{"i":1}') is None


def test_values_do_not_run_into_each_other():
    parts = (
        b'{"i":1',
        b'}{"i":2}',
        b'{"s":"a',
        b'b"}',
        b'{"t":"2024-05-01T10:',
        b'00:00Z"}',
        b'{"b":tr',
        b"ue}",
    )
    assert all(check(*parts[at:]) is None for at in range(len(parts)))


TIMES = st.datetimes(min_value=datetime.datetime(1, 1, 1)).map(lambda time: time.isoformat() + "Z")
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "i": st.none() | st.integers(-(2**63) + 1, 2**63 - 1),
        "small": st.integers(-128, 127),
        "d": st.floats(allow_nan=False, allow_infinity=False),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "b": st.none() | st.booleans(),
        "t": TIMES,
        "day": st.dates().map(str),
        "ü": st.text("äb", max_size=3),
        "z": st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
            ),
            max_leaves=5,
        ),
    },
)


@given(st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=9))
def test_what_python_writes_is_the_same_by_both(rows):
    check(*(json.dumps(row, ensure_ascii=escaped).encode() for row, escaped in rows))


@given(
    st.sampled_from(READ + LEFT),
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 2), st.sampled_from(b'{}[]",:\\u0129-+.eEtTZ \x00\xff')),
        max_size=3,
    ),
)
@example(b'{"t":"2024-05-01T10:00:00Z"}', [(16, 0, ord("/"))])
def test_values_that_were_tampered_with_are_judged_alike(value, changes):
    changed = bytearray(value)
    for at, kind, byte in changes:
        at = min(at, len(changed))
        changed[at : at + (kind > 0)] = bytes([byte]) if kind < 2 else b""
    check(bytes(changed))


@given(st.from_regex(rb"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_numbers_are_rounded_alike(text):
    check(b'{"d":' + text + b"}", b'{"i":' + text + b"}")
    check(b'{"d":' + text + b"}")


def test_other_types_and_odd_names_are_left_to_arrow():
    values = pa.array([b"{}"], pa.binary())
    for field in (
        pa.field("x", pa.list_(pa.int64())),
        pa.field("x", pa.float32()),
        pa.field('a"b', pa.string()),
    ):
        assert read_plain(values, pa.schema([field])) is None


def test_a_slice_is_read_from_where_it_begins():
    values = pa.array([b"bad", b'{"i":1}', b'{"i":2}', b"worse"], pa.binary()).slice(1, 2)
    for loop in LOOPS:
        assert read_plain(values, SCHEMA, loop).column("i").to_pylist() == [1, 2]
