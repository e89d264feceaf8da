"""Text in a format becomes columns; bad values are found among the good ones, wherever they stand."""

import datetime
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.errors import InvalidRequest
from mainstem.spark.formats import Format, check_schema
from mainstem.spark.parsing import parse

ID_NAME = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
JSON, CSV = Format("json"), Format("csv")
OUT = (b'{"id": 1}]}\n{"v":[{"id": 2}', b'{"id": 1},{"id": 2}')  # of the list that values are put into
OVER = (
    b'{"id": 1, "a": {}',
    b'{"id": 1, "name": "}',
    b'{"a": 1}}',
    b"}{",
    b"{}}",
)  # into the next, or beyond
WRONG = [
    *OUT,
    *OVER,
    b"",
    b"x",
    b'{"id": "x"}',
    b'{"id": 1} {"id": 2}',
    b'{"id": 1',
    b'{"id": 1}\n{"id": 2}',
    b"[1]",
    b"\xff",
    b'{"id": 1, "name": "\xff"}',
    b'{"id": 1, "other": "\xc3"}',
    b'{"id": 1, "name": "\xed\xa0\x80"}',  # half a pair
]


def values(*given):
    return pa.array(given, pa.binary())


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=5)) | st.sampled_from(WRONG),
        max_size=60,
    )
)
def test_good_values_are_kept_and_bad_ones_named(given):
    rows = [
        one if isinstance(one, bytes) else json.dumps({"id": one[0], "name": one[1], "z": 0}).encode()
        for one in given
    ]
    table, bad = parse(values(*rows), JSON, ID_NAME)
    good = [one for one in given if not isinstance(one, bytes)]
    assert list(zip(*table.to_pydict().values(), strict=True)) == good
    assert [one.row for one in bad] == [row for row, one in enumerate(given) if isinstance(one, bytes)]
    assert all(one.reason for one in bad)


def test_a_null_is_a_row_of_nulls():
    for format in (JSON, CSV):
        table, bad = parse(values(None, None), format, ID_NAME)
        assert table.to_pydict() == {"id": [None, None], "name": [None, None]}
        assert bad == []


def test_nothing_is_no_rows():
    for name in ("json", "csv"):
        table, bad = parse(values(), Format(name), ID_NAME)
        assert (table.schema, table.num_rows, bad) == (ID_NAME, 0, [])


def test_only_bad_values_are_no_rows():
    table, bad = parse(values(b"x", b"y"), JSON, ID_NAME)
    assert (table.num_rows, [one.row for one in bad]) == (0, [0, 1])


def test_csv_with_quotes_and_another_delimiter():
    table, bad = parse(values(b'1;"a;b"', b"2;", b"3", b"4;d"), Format("csv", ";"), ID_NAME)
    assert table.to_pydict() == {"id": [1, 2, 4], "name": ["a;b", None, "d"]}
    assert [one.row for one in bad] == [2]


def test_text_must_be_text():
    schema = pa.schema([pa.field("line", pa.string())])
    table, bad = parse(values("ä".encode(), b"\xff", None), Format("text"), schema)
    assert table.to_pydict() == {"line": ["ä", None]}
    assert [one.row for one in bad] == [1]


@pytest.mark.parametrize(("name", "delimiter"), [("xml", ","), ("csv", ""), ("csv", "ab")])
def test_a_format_that_is_none(name, delimiter):
    with pytest.raises(InvalidRequest):
        Format(name, delimiter)


def test_csv_values_cannot_shift_each_other():
    table, bad = parse(values(b'1,"a', b'b",2', b"3,c\n4,d", b"5,e\r\n", b"6,f"), CSV, ID_NAME)
    assert table.to_pydict() == {"id": [6], "name": ["f"]}
    assert [one.row for one in bad] == [0, 1, 2, 3]


def test_dates_are_written_as_text():
    schema = pa.schema([pa.field("d", pa.date32()), pa.field("id", pa.int64())])
    table, bad = parse(values(b'{"d": "2024-01-02", "id": 1}', b'{"d": "soon"}', b'{"id": 3}'), JSON, schema)
    assert table.schema == schema
    assert table.to_pydict() == {"d": [datetime.date(2024, 1, 2), None], "id": [1, 3]}
    assert [one.row for one in bad] == [1]


@pytest.mark.parametrize(
    ("format", "kind"), [(CSV, pa.list_(pa.int32())), (Format("text"), pa.int32()), (CSV, pa.struct([]))]
)
def test_a_type_that_a_format_has_not_is_refused(format, kind):
    with pytest.raises(InvalidRequest):
        check_schema(format, pa.schema([pa.field("x", kind)]))
