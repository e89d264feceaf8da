from __future__ import annotations

from mainstem.model.logs import Seldom, get_log


def test_a_warning_that_lasts_has_a_line_a_minute_and_counts_the_others(caplog):
    now_s = 0.0
    seldom = Seldom(get_log("mainstem.test"), lambda: now_s)
    for second in range(121):
        now_s = float(second)
        seldom.warning("no space", about="a", why="full")
    assert [str(record.msg) for record in caplog.records] == [
        "no space why=full",
        "no space why=full left_out=59",
        "no space why=full left_out=59",
    ]


def test_each_thing_has_a_minute_of_its_own(caplog):
    seldom = Seldom(get_log("mainstem.test"), lambda: 0.0)
    for about in ("a", "b", "a"):
        seldom.warning("has to wait", about=about, chore=about)
    assert [str(record.msg) for record in caplog.records] == ["has to wait chore=a", "has to wait chore=b"]
