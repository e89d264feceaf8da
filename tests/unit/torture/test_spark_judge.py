"""The check after a run with Spark sees every kind of loss: each test breaks one promise in a sound run."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from mainstem.torture.spark_judge import Copied, First, Output, Shown, Window, judge
from mainstem.torture.spark_rows import Row, Rows, to_json

ROWS = Rows(count=1000, seed=7)
BATCH_ROWS = 100


def in_parts(found, parts):
    """By key, as a sink does; a part keeps the order."""
    return [[one for one in found if int(one.key[1:]) % parts == index] for index in range(parts)]


def borders(parts):
    """How far readers can read after each batch."""
    batches = sorted({one.batch for part in parts for one in part})
    return [tuple(sum(one.batch <= batch for one in part) for part in parts) for batch in batches]


def sound() -> tuple[Output, Shown]:
    """Rows 1 to 1000 in batches of a hundred; windows are told of as they begin and closed in the end."""
    copies = [Copied(*row, batch=(row.id - 1) // BATCH_ROWS) for row in ROWS]
    windows = ROWS.windows()
    closed = [
        Window(key, start_ms, *held, batch=start_ms // 1_000_000)
        for (key, start_ms), held in sorted(windows.items(), key=lambda item: item[0][1])
        if ROWS.is_closed(start_ms)
    ]
    firsts = [
        First(key, start_ms, batch=start_ms // 1_000_000)
        for key, start_ms in sorted(windows, key=lambda window: window[1])
    ]
    output = Output(list(ROWS), in_parts(copies, 3), in_parts(closed, 2), in_parts(firsts, 2))
    return output, Shown(borders(output.copies), borders(output.windows), borders(output.firsts))


def broken(output, shown) -> set[str]:
    verdict = judge(ROWS, output, shown)
    assert verdict.is_good == (not verdict.findings())
    return {name for name, check in verdict.checks.items() if check.wrong}


def test_a_sound_run_is_found_sound():
    assert broken(*sound()) == set()


def test_a_lost_row_is_seen():
    output, shown = sound()
    output.copies[1].pop()
    assert "copied" in broken(output, shown)


def test_a_doubled_row_is_seen():
    output, shown = sound()
    output.copies[1].append(output.copies[1][-1])
    assert "copied" in broken(output, shown)


def test_a_changed_row_is_seen():
    output, shown = sound()
    row = output.copies[0][3]
    output.copies[0][3] = msgspec.structs.replace(row, amount=row.amount + 1)
    assert broken(output, shown) == {"copied"}


def test_a_row_that_nobody_sent_is_seen():
    output, shown = sound()
    output.copies[0][-1] = msgspec.structs.replace(output.copies[0][-1], id=1001)
    assert broken(output, shown) == {"copied"}


@pytest.mark.parametrize("number", [0, 500, 999])
def test_a_row_that_never_came_in_is_seen(number):
    output, shown = sound()
    sent = [row for row in output.sent if row.id != number + 1]
    assert broken(replace(output, sent=sent), shown) == {"sent"}


@pytest.mark.parametrize("change", [{"count": 0}, {"amount": -1}])
def test_a_wrong_count_or_sum_is_seen(change):
    output, shown = sound()
    output.windows[0][5] = msgspec.structs.replace(output.windows[0][5], **change)
    assert broken(output, shown) == {"windows"}


def test_a_doubled_window_is_seen():
    output, shown = sound()
    output.windows[1].append(output.windows[1][-1])
    assert "windows" in broken(output, shown)


def test_a_missing_window_is_seen():
    output, shown = sound()
    output.windows[1].pop(0)
    assert "windows" in broken(output, shown)


def test_a_window_that_is_still_open_may_not_come():
    output, shown = sound()
    last = ROWS.row(ROWS.count)
    open_one = Window(last.key, last.at_ms - last.at_ms % 60_000, 1, last.amount, output.windows[0][-1].batch)
    output.windows[0].append(open_one)
    assert "windows" in broken(output, shown)


def test_a_window_told_of_twice_or_never_is_seen():
    output, shown = sound()
    output.firsts[0].append(output.firsts[0][-1])
    assert "firsts" in broken(output, shown)
    output, shown = sound()
    output.firsts[0].pop()
    assert "firsts" in broken(output, shown)


def test_part_of_a_batch_shown_to_readers_is_seen():
    output, shown = sound()
    a, b, c = shown.copies[4]
    torn = [*shown.copies[:5], (a + 1, b, c), *shown.copies[5:]]
    assert broken(output, replace(shown, copies=torn)) == {"batches"}


def test_a_batch_shown_in_one_partition_before_the_others_is_seen():
    output, shown = sound()
    (a, _), (_, d) = shown.windows[2:4]
    torn = [*shown.windows[:3], (a, d), *shown.windows[3:]]
    assert broken(output, replace(shown, windows=torn)) == {"batches"}


def test_a_look_that_missed_some_batches_is_fine():
    output, shown = sound()
    assert broken(output, replace(shown, copies=shown.copies[::3])) == set()


def test_an_end_that_went_back_is_seen():
    output, shown = sound()
    back = [*shown.copies, shown.copies[2], shown.copies[-1]]
    assert broken(output, replace(shown, copies=back)) == {"stays"}


def test_what_was_not_looked_at_is_not_good():
    output, _ = sound()
    assert not judge(ROWS, output, Shown()).is_good


def test_two_queries_are_judged_without_the_third():
    output, shown = sound()
    verdict = judge(ROWS, replace(output, firsts=None), replace(shown, firsts=()))
    assert verdict.is_good
    assert "firsts" not in verdict.checks


def test_the_last_row_closes_every_window_but_its_own():
    open_ones = [window for window in ROWS.windows() if not ROWS.is_closed(window[1])]
    last = ROWS.row(ROWS.count)
    assert open_ones == [(last.key, last.at_ms - last.at_ms % 60_000)]


def test_no_row_is_ever_late():
    """Rows are sent in portions; the watermark allows for far more disorder than a portion can bring."""
    for rows in (Rows(20_000, 1), Rows(1_000_000, 1)):
        portion = rows.count // 200
        sample = range(1, rows.count - 2 * portion, portion)
        assert all(rows.row(n + 2 * portion).at_ms - rows.row(n).at_ms < 600_000 for n in sample)


def test_a_row_is_plain_json():
    assert to_json(Row(1, "k01", 5, 1_767_225_600_007)) == (
        b'{"id":1,"key":"k01","amount":5,"at":"2026-01-01T00:00:00.007Z"}'
    )
