"""Entries that become due at a time of their own."""

import tracemalloc

import pytest

from mainstem.kernel.timers.pairs import CHUNK_PAIRS
from mainstem.kernel.timers.timers import Part, Timers
from mainstem.model.errors import InvalidRequest

NOW_MS = 1_700_000_000_000
YEAR_MS = 365 * 24 * 3600 * 1000


def filled(*entries: tuple[int, int]) -> Timers:
    timers = Timers()
    for due_ms, id in entries:
        timers.add(due_ms, id)
    return timers


def test_what_is_due_comes_earliest_first_whatever_the_order_of_adding():
    timers = filled((NOW_MS + 3, 1), (NOW_MS + 1, 2), (NOW_MS + 2, 3), (NOW_MS + 9, 4))
    assert timers.due(NOW_MS + 5, 10) == [2, 3, 1]
    assert timers.next_due_ms() == NOW_MS + 9
    assert len(timers) == 1


def test_entries_of_one_millisecond_are_due_in_the_order_of_their_ids():
    timers = filled((NOW_MS, 7), (NOW_MS, -3), (NOW_MS, 5))
    assert timers.due(NOW_MS, 10) == [-3, 5, 7]


def test_an_entry_is_due_at_its_millisecond_and_not_before():
    timers = filled((NOW_MS, 1))
    assert timers.due(NOW_MS - 1, 10) == []
    assert timers.due(NOW_MS, 10) == [1]
    assert timers.due(NOW_MS, 10) == []
    assert timers.next_due_ms() is None


def test_what_is_overdue_comes_at_once():
    timers = filled((NOW_MS - YEAR_MS, 1), (0, 2))
    assert timers.next_due_ms() == 0
    assert timers.due(NOW_MS, 10) == [2, 1]


def test_no_more_than_asked_for_come_and_the_others_next_time():
    timers = filled(*((NOW_MS + i % 7, i) for i in range(3 * CHUNK_PAIRS)))
    came = []
    while ids := timers.due(NOW_MS + 3, 1000):
        assert len(ids) <= 1000
        came += ids
    assert came == sorted((i for i in range(3 * CHUNK_PAIRS) if i % 7 <= 3), key=lambda i: (i % 7, i))
    assert timers.due(NOW_MS + 4, 0) == []


def test_thousands_of_years_ahead_wait_like_everyone():
    timers = filled((NOW_MS + 5000 * YEAR_MS, 1), (NOW_MS, 2))
    assert timers.due(NOW_MS + YEAR_MS, 10) == [2]
    assert timers.due_of(1) == NOW_MS + 5000 * YEAR_MS


def test_one_that_is_cancelled_is_never_due():
    timers = filled((NOW_MS, 1), (NOW_MS, 2))
    assert timers.cancel(1)
    assert not timers.cancel(1)
    assert 1 not in timers
    assert timers.due(NOW_MS, 10) == [2]
    assert not timers.cancel(2)


def test_an_id_that_is_added_again_moves():
    timers = filled((NOW_MS, 1), (NOW_MS + 5, 1), (NOW_MS + 5, 1))
    assert len(timers) == 1
    assert timers.due(NOW_MS + 4, 10) == []
    assert timers.due(NOW_MS + 5, 10) == [1]


def test_numbers_beyond_64_bits_are_refused_and_leave_nothing_behind():
    timers = Timers()
    for due_ms, id in ((1 << 63, 1), (1, 1 << 63), (-(1 << 63) - 1, 1)):
        with pytest.raises(InvalidRequest):
            timers.add(due_ms, id)
    assert len(timers) == 0
    assert timers.next_due_ms() is None


def test_pending_ones_can_be_looked_through_in_pages():
    timers = filled((NOW_MS + 2, 1), (NOW_MS + 1, 2), (NOW_MS + 1, 3))
    first = timers.pending(2)
    assert first == [(NOW_MS + 1, 2), (NOW_MS + 1, 3)]
    assert timers.pending(2, after=first[-1]) == [(NOW_MS + 2, 1)]
    assert len(timers) == 3


def test_a_dump_restores_to_the_same():
    timers = filled(*((NOW_MS + i * 7919 % 10_007, i * 31) for i in range(5000)))
    again = Timers()
    for part in timers.dump(slice_entries=700):
        assert len(part.ids) <= 700
        again.restore(part)
    assert again.due(NOW_MS + 20_000, 10_000) == timers.due(NOW_MS + 20_000, 10_000)


def test_a_dump_goes_on_while_entries_move_come_and_go():
    timers = filled(*((NOW_MS + i, i) for i in range(10)))
    dump = timers.dump(slice_entries=4)
    parts = [next(dump)]
    timers.add(NOW_MS + 99, 3)  # moves, and was the last of a slice
    timers.cancel(5)
    timers.add(NOW_MS, 20)
    parts += dump
    assert [id for part in parts for id in part.ids] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 20]


def test_restoring_what_is_there_changes_nothing():
    timers = filled((NOW_MS, 1))
    timers.restore(Part([1], [NOW_MS]))
    assert timers.due(NOW_MS, 10) == [1]
    assert len(timers) == 0


def test_a_hundred_thousand_entries_take_less_than_60_bytes_each():
    tracemalloc.start()
    try:
        timers = Timers()
        before_bytes = tracemalloc.get_traced_memory()[0]
        for i in range(100_000):
            timers.add(NOW_MS + i * 7919 % 100_003, i)
        grown_bytes = tracemalloc.get_traced_memory()[0] - before_bytes
    finally:
        tracemalloc.stop()
    assert grown_bytes < 60 * len(timers)
