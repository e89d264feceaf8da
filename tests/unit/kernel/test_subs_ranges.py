from __future__ import annotations

import random

import pytest

from mainstem.kernel.subs import ranges as ranges_module
from mainstem.kernel.subs.ranges import RangeSet


def made_of(*ranges):
    made = RangeSet()
    for first, stop in ranges:
        made.add(first, stop)
    return made


def assert_sound(ranges):
    """The rules that the module's text gives."""
    edges = [edge for chunk in ranges._chunks for edge in chunk]
    assert edges == sorted(set(edges))
    assert all(
        len(chunk) % 2 == 0 and 0 < len(chunk) <= ranges_module.MAX_EDGES + 2 for chunk in ranges._chunks
    )
    assert ranges._lows == [chunk[0] for chunk in ranges._chunks]
    assert ranges.count == sum(stop - first for first, stop in ranges)


def test_ranges_that_touch_become_one():
    ranges = made_of((0, 3), (6, 9))
    assert ranges.add(3, 6) == 3
    assert list(ranges) == [(0, 9)]
    assert ranges.count == 9


def test_add_counts_only_what_is_new():
    ranges = made_of((2, 4), (6, 8))
    assert ranges.add(0, 10) == 6
    assert ranges.add(1, 9) == 0
    assert list(ranges) == [(0, 10)]


def test_remove_counts_what_was_there_and_leaves_the_rest():
    ranges = made_of((0, 5), (10, 15))
    assert ranges.remove(3, 12) == 4
    assert list(ranges) == [(0, 3), (12, 15)]
    assert ranges.remove(4, 11) == 0
    assert ranges.remove(1, 2) == 1
    assert list(ranges) == [(0, 1), (2, 3), (12, 15)]


@pytest.mark.parametrize(("first", "stop"), [(5, 5), (7, 5)])
def test_an_empty_range_changes_nothing(first, stop):
    ranges = made_of((0, 10))
    assert ranges.add(first, stop) == 0
    assert ranges.remove(first, stop) == 0
    assert list(ranges) == [(0, 10)]


def test_an_empty_set_answers_everything():
    ranges = RangeSet()
    assert not ranges
    assert 0 not in ranges
    assert ranges.next_missing(5) == 5
    assert ranges.within(0, 100) == []
    assert ranges.lowest(3) == []
    assert ranges.remove(0, 10) == 0


def test_the_lowest_are_cut_at_the_count():
    ranges = made_of((2, 4), (10, 20))
    assert ranges.lowest(0) == []
    assert ranges.lowest(2) == [(2, 4)]
    assert ranges.lowest(5) == [(2, 4), (10, 13)]
    assert ranges.lowest(50) == [(2, 4), (10, 20)]


@pytest.mark.parametrize(("span", "max_edges"), [(60, 1024), (200, 8), (2000, 32)])
def test_any_changes_agree_with_a_set(span, max_edges, monkeypatch):
    """Short chunks make them split and join all the time."""
    monkeypatch.setattr(ranges_module, "MAX_EDGES", max_edges)
    monkeypatch.setattr(ranges_module, "FEW_EDGES", max_edges // 4)
    chance = random.Random(span)
    ranges, model = RangeSet(), set()
    for turn in range(12_000):
        first = 0 if turn % 50 == 0 else chance.randrange(span)
        stop = first + chance.randrange(span // 2 if turn % 100 == 0 else 5)
        some = set(range(first, stop))
        if chance.random() < (0.3 if turn // 3000 % 2 else 0.7):
            assert ranges.add(first, stop) == len(some - model)
            model |= some
        else:
            assert ranges.remove(first, stop) == len(some & model)
            model -= some
        assert ranges.count == len(model)
        assert (first in ranges) == (first in model)
        missing = ranges.next_missing(first)
        assert missing not in model
        assert model.issuperset(range(first, missing))
        found = [offset for f, s in ranges.within(first, stop) for offset in range(f, s)]
        assert found == sorted(some & model)
        if turn % 10 == 0:
            assert_sound(ranges)
            assert [offset for f, s in ranges for offset in range(f, s)] == sorted(model)


def test_a_million_holes_stay_small():
    ranges = RangeSet()
    for offset in range(0, 2_000_000, 2):
        ranges.add(offset, offset + 1)
    spent = sum(chunk.buffer_info()[1] * chunk.itemsize for chunk in ranges._chunks)
    assert ranges.count == 1_000_000
    assert spent == 16_000_000
    assert len(ranges._chunks) < 5_000
