"""Which picture a result makes, and that it can be drawn."""

import datetime
import struct

import pytest

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.plotting import MAX_BARS, MAX_SERIES, chart_of, draw, text_chart, title_of
from mainstem.pipeline.result import Result, ResultColumn

T0 = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
MINUTES = [T0 + datetime.timedelta(minutes=i) for i in range(3)]
KINDS = {"n": "number", "t": "time", "c": "text", "o": "other"}


def result(kinds, *rows):
    """`tcn`: columns t0, c1, n2."""
    return Result(tuple(ResultColumn(f"{kind}{i}", KINDS[kind]) for i, kind in enumerate(kinds)), rows)


def chart(kinds, *rows):
    return chart_of(result(kinds, *rows), "select 1")


def test_a_time_makes_lines_in_its_order_whatever_the_order_of_rows():
    found = chart("tnn", (MINUTES[1], 2, 20), (MINUTES[0], 1, None), (None, 9, 9))

    assert (found.kind, found.x_label, found.y_label) == ("line", "t0", "")
    assert found.x == MINUTES[:2]
    assert found.series == {"n1": [1, 2], "n2": [None, 20]}


def test_a_time_anywhere_is_the_axis_and_a_category_makes_series():
    found = chart(
        "ctn", ("a", MINUTES[0], 1), ("b", MINUTES[0], 2), ("b", MINUTES[1], 3), (None, MINUTES[1], 4)
    )

    assert (found.kind, found.x_label, found.y_label) == ("line", "t1", "n2")
    assert found.series == {"a": [1, None], "b": [2, 3], "null": [None, 4]}


def test_a_category_makes_bars_in_the_order_of_rows():
    found = chart("cn", ("b", 3), ("a", 1), (None, 2))

    assert (found.kind, found.x, found.series) == ("bar", ["b", "a", "null"], {"n1": [3, 1, 2]})


def test_a_second_category_makes_groups_of_bars():
    found = chart("ccn", ("a", "x", 1), ("a", "y", 2), ("b", "x", 3))

    assert (found.kind, found.x, found.series) == ("bar", ["a", "b"], {"x": [1, 3], "y": [2, None]})


def test_a_second_category_that_only_describes_the_first_makes_no_series():
    assert chart("ccn", ("1", "Ann", 5), ("2", "Bob", 6)).series == {"n2": [5, 6]}


def test_an_ordered_number_that_stands_first_is_the_axis():
    found = chart("nnc", (1, 10, "x"), (2, 20, "y"), (3, 30, "x"))

    assert (found.kind, found.x, found.series) == ("line", [1, 2, 3], {"n1": [10, 20, 30]})


def test_an_ordered_number_with_a_category_makes_a_line_for_each():
    found = chart("ncn", (1, "x", 10), (1, "y", 11), (2, "x", 20))

    assert (found.kind, found.x, found.series) == ("line", [1, 2], {"x": [10, 20], "y": [11, None]})


def test_numbers_alone_are_bars_of_one_row_or_lines_over_the_first():
    assert chart("nn", (3, 4)).series == {"value": [3, 4]}
    assert chart("nn", (3, 4)).x == ["n0", "n1"]
    assert chart("nn", (2, 4), (1, 3)).series == {"n1": [3, 4]}
    assert chart("n", (5,), (6,)).x == [1, 2]


def test_too_many_series_or_bars_are_left_out_and_said():
    many = chart("ccn", *((x, f"s{i}", i) for i in range(20) for x in "ab"))
    bars = chart("cn", *((f"b{i}", i) for i in range(100)))

    assert set(many.series) == {f"s{i}" for i in range(20 - MAX_SERIES, 20)}
    assert "12 largest of 20" in many.left_out
    assert len(bars.x) == MAX_BARS
    assert "60 of 100" in bars.left_out


def test_what_no_axis_has_is_no_point():
    assert chart("cn", ("a", float("nan")), ("b", float("inf")), ("c", 1)).series == {"n1": [None, None, 1]}


def test_without_numbers_or_rows_there_is_no_plot():
    with pytest.raises(InvalidRequest, match=r"a column of numbers; there are c0 \(text\), t1 \(time\)"):
        chart("ct", ("a", T0))
    with pytest.raises(InvalidRequest, match="needs rows"):
        chart("cn")


def test_the_title_is_the_query_without_its_comments():
    assert title_of("-- revenue\nselect 1,\n   2 -- two\n;\n") == "select 1, 2 -- two"


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        ("tcn", [(at, c, len(c)) for at in MINUTES for c in ("a", "bb")]),
        ("cnn", [(f"a rather long name of a category {i}", i, -i) for i in range(20)]),
        ("n", [(i,) for i in range(200)]),
    ],
)
def test_a_picture_is_a_png_of_a_sane_size(tmp_path, kinds, rows):
    path = tmp_path / "plot.png"

    draw(chart_of(result(kinds, *rows), "select " + "a_long_name, " * 30), path)

    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (900, 500)
    assert 2_000 < len(data) < 80_000


def test_bars_in_a_terminal_are_as_long_as_their_numbers():
    lines = text_chart(chart("cn", ("north", 40.0), ("west", 20), ("nil", None)), 40).splitlines()

    assert lines == ["north  40  " + "█" * 29, "west   20  " + "█" * 14 + "▌", "nil"]


def test_series_in_a_terminal_stand_below_each_other():
    lines = text_chart(chart("ccn", ("a", "x", 1), ("a", "y", 2), ("b", "x", 2)), 30).splitlines()

    assert [line.split("█")[0] for line in lines] == ["a  x  1  ", "   y  2  ", "b  x  2  ", "   y"]
