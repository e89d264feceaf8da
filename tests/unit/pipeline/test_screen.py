import io

import pytest
from rich.console import Console

from mainstem.pipeline import screen_text as text
from mainstem.pipeline.progress import DeadLetters, QueryProgress, RunStatus
from mainstem.pipeline.screen import PLAIN_EVERY_MS, Screen, View, plain_lines, render
from mainstem.pipeline.screen_history import History

NOW_MS = 1_800_000_000_000  # 2027-01-15 08:00 UTC


def progress(query="revenue", batch=3, **changes):
    facts = {
        "query": query,
        "batch": batch,
        "at_ms": NOW_MS + batch,
        "input_rows": 400,
        "input_rows_per_s": 412.3,
        "output_rows": 58,
        "output_rows_per_s": 59.0,
        "batch_ms": 230,
        "lag": 600,
        "watermark_ms": NOW_MS - 12_000,
        "state_rows": 60,
        "state_bytes": 13_752,
    }
    return QueryProgress(**(facts | changes))


def bare(query="copy", **changes):
    """A query whose sink counts nothing and whose source tells no lag."""
    none = {"output_rows": -1, "output_rows_per_s": 0.0, "lag": None, "watermark_ms": None}
    return progress(query, **(none | {"state_rows": 0, "state_bytes": 0} | changes))


def status(**changes):
    facts = {
        "pipeline": "orders",
        "run": "r1",
        "state": "running",
        "started_ms": NOW_MS - 723_000,
        "at_ms": NOW_MS,
        "host": "here",
        "pid": 7,
        "master": "local[*]",
        "files": ("orders.sql",),
        "checkpoints": "/var/checkpoints",
        "rows_in": 1_234_567,
        "rows_out": 4_567,
        "queries": (progress(), bare()),
    }
    return RunStatus(**(facts | changes))


def shot(what, width):
    console = Console(file=io.StringIO(), width=width)
    console.print(render(*what, width))
    return console.file.getvalue()


def line_with(picture, word):
    (line,) = (line for line in picture.splitlines() if line.startswith(word))
    return " ".join(line.split())


def test_a_wide_screen_has_every_figure_of_a_query_in_its_row():
    history = History()
    for batch in range(4):
        history.add(progress(batch=batch, input_rows_per_s=100.0 * (batch + 1)))
    picture = shot((status(), View(NOW_MS, history)), 150)
    assert line_with(picture, "orders") == (
        "orders running 12m 03s 1,234,567 rows in 4,567 rows out local[*]"
    )
    assert line_with(picture, "revenue") == (
        "revenue 412/s 59/s 600 230 ms 2027-01-15 07:59:48 12.0 s 60 rows, 13.8 kB 1,600 ▃▅▇█"
    )
    assert line_with(picture, "copy") == "copy 412/s - - 230 ms - - - 400"


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_screen_says_the_rest_below(width):
    picture = shot((status(), View(NOW_MS)), width)
    assert max(map(len, picture.splitlines())) <= width
    lines = picture.splitlines()
    assert any(" ".join(line.split()).startswith("revenue 412/s 59/s 600 230 ms") for line in lines)
    rest = " ".join(picture.split())
    assert "revenue: at 2027-01-15 07:59:48, 12.0 s behind; state 60 rows, 13.8 kB" in rest


def dead(topic="orders.dead", records=1_017, last=3):
    return DeadLetters(topic=topic, records=records, last=last)


@pytest.mark.parametrize("width", [60, 150])
def test_dead_letters_are_told_with_their_topic(width):
    picture = shot((status(dead=(dead("bad\x1b", 4, 0), dead(), dead("x", -1, -1))), View(NOW_MS)), width)
    said = (
        "dead letters: 1,017 in orders.dead, 3 with the last batch; 4 in bad\\x1b, 0 with the last batch; "
        "- in x, - with the last batch"
    )
    assert said in " ".join(picture.split())
    assert "dead letters" not in shot((status(), View(NOW_MS)), width)


def test_of_many_topics_of_dead_letters_those_with_the_most_are_named():
    some = [dead(f"t{n}", n, 0) for n in range(1, 9)]
    assert text.dead_letters(some).startswith("8 in t8, 0 with the last batch; 7 in t7")
    assert text.dead_letters(some).endswith("4 in t4, 0 with the last batch; 3 more topics")


def test_rows_that_nobody_has_counted_are_not_shown_as_none():
    picture = shot((status(rows_out=-1, queries=(progress(input_rows=-1),)), View(NOW_MS)), 150)
    assert "1,234,567 rows in  - rows out" in picture
    assert line_with(picture, "revenue").startswith("revenue - 59/s")


def test_work_with_an_end_has_a_bar():
    history = History()
    for batch in range(30):
        history.add(progress(batch=batch))
    view = View(NOW_MS, history, {"revenue": 30_000})
    picture = shot((status(mode="backfill"), view), 100)
    assert "orders  running  backfill  12m 03s" in picture
    assert "40 %" in picture
    assert "12,000 of 30,000 rows, 43.7 s left" in picture


@pytest.mark.parametrize(("total", "said"), [(0, "100 %"), (400, "100 %"), (100, "100 of 100 rows")])
def test_a_bar_ends_when_all_is_done(total, said):
    """Also where there was nothing to do, or more came than was counted."""
    picture = shot((status(queries=(progress(),)), View(NOW_MS, History(), {"revenue": total})), 100)
    assert said in picture
    assert "left" not in picture


def test_a_bar_of_a_query_that_stands_still_names_no_time():
    still = progress(input_rows=0, input_rows_per_s=0.0)
    picture = shot((status(queries=(still,)), View(NOW_MS, History(), {"revenue": 10})), 100)
    assert "0 of 10 rows" in picture
    assert "left" not in picture


def test_a_run_that_is_done_has_a_full_bar_though_offsets_had_holes():
    history = History()
    history.add(progress())
    view = View(NOW_MS, history, {"revenue": 402})
    assert "99 %" in shot((status(queries=(progress(),)), view), 100)
    assert "100 %" in shot((status(state="done", queries=(progress(),)), view), 100)


@pytest.mark.parametrize(("mode", "said"), [("once", "400 of 1,000 rows"), ("live", "400 rows so far")])
def test_the_first_batch_of_a_run_that_ends_tells_how_much_there_is(mode, said):
    out = io.StringIO()
    with Screen(Console(file=out), Hand()) as screen:
        screen.update(status(mode=mode, queries=(progress(lag=600),)))
    assert out.getvalue().rstrip().endswith(said)


def test_errors_and_the_last_lines_of_the_log_are_shown_and_cannot_drive_the_terminal():
    lines = (("info", "query revenue started"), ("warning", "bell \x07 and \x1b[2J"), ("error", "x" * 500))
    picture = shot((status(state="failed", error="no topic \x1b[31m"), View(NOW_MS, lines=lines)), 100)
    assert "query revenue started" in picture
    assert "bell \\x07 and \\x1b[2J" in picture
    assert "no topic \\x1b[31m" in picture
    assert "\x1b" not in picture
    assert max(map(len, picture.splitlines())) <= 100


def test_a_run_that_is_silent_is_shown_as_lost_and_one_that_ended_stops_its_watch():
    assert "orders  lost" in shot((status(), View(NOW_MS + 60_000)), 100)
    assert "orders  done  12m 03s" in shot((status(state="done"), View(NOW_MS + 10**9)), 100)


def test_a_history_that_began_later_shows_no_sums():
    view = View(NOW_MS, History(), is_whole=False)
    assert line_with(shot((status(), view), 150), "copy") == "copy 412/s - - 230 ms - - -"


def test_a_batch_that_is_told_twice_counts_once():
    history = History()
    history.add(progress(batch=1))
    history.add(progress(batch=1))
    history.add(bare("revenue", batch=2))
    assert (history["revenue"].rows_in, history["revenue"].rows_out) == (800, 58)
    assert len(history["revenue"].rates) == 2


def test_without_a_terminal_there_is_a_line_per_query():
    history = History()
    history.add(progress())
    assert plain_lines(status(), View(NOW_MS, history, {"revenue": 1_000})) == [
        "orders/revenue: batch 3, 412/s in, 59/s out, lag 600, took 230 ms, watermark 2027-01-15 07:59:48, "
        "state 60 rows, 13.8 kB, 400 of 1,000 rows",
        "orders/copy: batch 3, 412/s in, took 230 ms",
    ]


class Hand:
    def __init__(self):
        self.ms = NOW_MS

    def __call__(self):
        return self.ms


def test_a_plain_line_tells_dead_letters():
    query = bare(dead=(dead(),))
    (line,) = plain_lines(status(queries=(query,)), View(NOW_MS))
    assert line == "orders/copy: batch 3, 412/s in, took 230 ms, dead letters 1,017 in orders.dead"


def test_plain_lines_come_every_few_seconds_and_at_once_when_the_state_changes():
    clock, out = Hand(), io.StringIO()
    with Screen(Console(file=out), clock) as screen:
        screen.update(status(state="starting", queries=()))
        screen.update(status(queries=(bare(batch=1),)))
        screen.update(status(queries=(bare(batch=2),)))
        screen.log("warning", "slow \x1b disk")
        clock.ms += PLAIN_EVERY_MS
        screen.progressed(bare(batch=3))
        screen.update(status(queries=(bare(batch=4),), at_ms=clock.ms))
        screen.update(status(state="stopped", queries=(bare(batch=4),)))
    assert out.getvalue().splitlines() == [
        "orders: starting",
        "orders: running",
        "orders/copy: batch 1, 412/s in, took 230 ms, 400 rows so far",
        "warning: slow \\x1b disk",
        "orders/copy: batch 4, 412/s in, took 230 ms, 1,600 rows so far",
        "orders: stopped",  # and nothing new of its query
    ]


def test_on_a_terminal_the_last_picture_stays():
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with Screen(console, Hand(), {"copy": 800}) as screen:
        screen.update(status(queries=(bare(batch=1),)))
        screen.log("info", "half way")
        screen.update(status(state="done", queries=(bare(batch=2),)))
    last = out.getvalue().rsplit("orders", 1)[1]
    assert "done" in last
    assert "800 of 800 rows" in last
    assert "half way" in last


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (-5, "0 ms"),
        (850, "850 ms"),
        (3_200, "3.2 s"),
        (250_000, "4m 10s"),
        (7_500_000, "2h 05m"),
        (273_600_000, "3d 04h"),
    ],
)
def test_durations_are_said_in_two_parts(ms, said):
    assert text.duration(ms) == said


def test_slow_rates_keep_a_decimal():
    assert [text.rate(value) for value in (0, 0.4, 12.6, 123_456)] == ["0/s", "0.4/s", "13/s", "123,456/s"]


def test_an_event_time_beyond_the_calendar_is_not_shown():
    assert text.event_time(10**17) == "-"


def test_bars_are_as_high_as_their_share_of_the_highest():
    assert text.bars([0.0, 4.0, 8.0]) == "▁▅█"
    assert text.bars([0.0, 0.0]) == "  "


def test_a_terminal_shows_what_is_said_before_the_run_begins():
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    with Screen(console, lambda: NOW_MS) as screen:
        screen.log("info", "listening for the last run")
    assert "listening for the last run" in console.file.getvalue()
