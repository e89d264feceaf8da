"""The rows of a query as text: short for people, exact for programs."""

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from mainstem.pipeline.result import (
    Result,
    ResultColumn,
    csv_lines,
    exact,
    json_lines,
    plain,
    result_of,
    shown,
)

NOON = datetime.datetime(2030, 1, 1, 12, 0, 0, 250_000, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("value", "for_people", "for_csv", "for_json"),
    [
        (None, "", "", None),
        (True, "true", "true", True),
        (7, "7", "7", 7),
        (39672.110000000015, "39672.11", "39672.110000000015", 39672.110000000015),
        (3.0, "3.0", "3.0", 3.0),
        (1e300, "1e+300", "1e+300", 1e300),
        (float("nan"), "nan", "nan", "nan"),
        (
            Decimal("12345678901234567890.50"),
            "12345678901234567890.50",
            "12345678901234567890.50",
            1.2345678901234567e19,
        ),
        (Decimal("3.00"), "3.00", "3.00", 3),
        ("a,b", "a,b", "a,b", "a,b"),
        (b"a\xff", '"a\\\\xff"', "a\\xff", "a\\xff"),
        (NOON, "2030-01-01 12:00:00.250", "2030-01-01T12:00:00.250000Z", "2030-01-01T12:00:00.250000Z"),
        (
            NOON.replace(tzinfo=None, microsecond=0),
            "2030-01-01 12:00:00",
            "2030-01-01T12:00:00",
            "2030-01-01T12:00:00",
        ),
        (datetime.date(2030, 1, 1), "2030-01-01", "2030-01-01", "2030-01-01"),
        (
            [{"n": 1, "at": NOON.date()}],
            '[{"n": 1, "at": "2030-01-01"}]',
            '[{"n": 1, "at": "2030-01-01"}]',
            [{"n": 1, "at": "2030-01-01"}],
        ),
    ],
)
def test_values(value, for_people, for_csv, for_json):
    assert shown(value) == for_people
    assert exact(value) == for_csv
    assert plain(value) == for_json


def test_times_are_told_in_utc_wherever_they_come_from():
    berlin = NOON.astimezone(datetime.timezone(datetime.timedelta(hours=1)))

    assert shown(berlin) == shown(NOON)
    assert plain(berlin) == plain(NOON)


def test_a_result_knows_what_its_columns_are():
    table = pa.table(
        {
            "n": pa.array([1], pa.int32()),
            "d": pa.array([Decimal("1.5")]),
            "t": pa.array([NOON]),
            "day": pa.array([NOON.date()]),
            "s": ["x"],
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )

    found = result_of(table)

    assert [column.kind for column in found.columns] == ["number", "number", "time", "time", "text", "other"]
    assert [column.is_whole for column in found.columns[:2]] == [True, False]
    assert found.rows[0][5] == {"a": 1}


def test_one_row_more_than_asked_for_means_there_are_more():
    table = pa.table({"n": [1, 2, 3]})

    assert result_of(table, 2) == Result((ResultColumn("n", "number", True),), [(1,), (2,)], more=True)
    assert not result_of(table, 3).more
    assert not result_of(table).more


def test_json_has_an_object_per_line_and_keeps_columns_of_one_name_apart():
    result = Result((ResultColumn("a", "number"), ResultColumn("a", "text")), [(1, "ü"), (None, "x")])

    assert [json.loads(line) for line in json_lines(result)] == [
        {"a": 1, "a_2": "ü"},
        {"a": None, "a_2": "x"},
    ]


def test_csv_has_a_head_and_quotes_what_needs_it():
    result = Result(
        (ResultColumn("a", "text"), ResultColumn("b, c", "text")), [('say "x"', None), ("two\nlines", 1)]
    )

    assert list(csv_lines(result)) == ['a,"b, c"', '"say ""x""",', '"two\nlines",1']
