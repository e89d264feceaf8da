"""What `mainstem sql` prints of a result, beside a plot of it too."""

import pytest

from mainstem.cli.sql import Wish, _show
from mainstem.pipeline.result import Result, ResultColumn

RESULT = Result(
    (ResultColumn("name", "text"), ResultColumn("n", "number", is_whole=True)),
    [(f"name-{n}", n) for n in range(5)],
)


def wish(format, plot, limit):
    return Wish("select", None, format, plot, limit, None, None, (), (), False, False, "local[*]", None)


@pytest.mark.parametrize("format", ["csv", "json", "table"])
@pytest.mark.parametrize(("limit", "rows"), [(2, 2), (0, 5), (9, 5)])
def test_a_limit_cuts_what_is_printed_and_not_the_plot(capsys, format, limit, rows):
    _show(RESULT, wish(format, "-", limit), "select")
    assert capsys.readouterr().out.count("name-") == rows + len(RESULT.rows)
