from __future__ import annotations

import random

from mainstem.kernel.subs.attempts import MOST_COUNTED, Attempts


def one_by_one(attempts: Attempts) -> dict[int, int]:
    return {offset: count for first, stop, count in attempts.ranges() for offset in range(first, stop)}


def test_a_long_run_that_fails_is_one_range():
    attempts = Attempts()
    for _ in range(3):
        attempts.failed(0, 1_000_000)
    assert attempts.of(999_999) == 3
    assert attempts.of(1_000_000) == 0
    assert [list(ranges) for ranges in attempts._by_count.values()] == [[(0, 1_000_000)]]


def test_counts_agree_with_a_dict():
    chance = random.Random(7)
    attempts, model = Attempts(), {}
    for _ in range(3000):
        first = chance.randrange(40)
        stop = first + chance.randrange(1, 9)
        if chance.random() < 0.6:
            attempts.failed(first, stop)
            for offset in range(first, stop):
                model[offset] = model.get(offset, 0) + 1
        else:
            attempts.forget(first, stop)
            for offset in range(first, stop):
                model.pop(offset, None)
        assert one_by_one(attempts) == model
        assert attempts.of(first) == model.get(first, 0)
        assert bool(attempts) == bool(model)


def test_what_is_saved_as_ranges_can_be_loaded():
    before, after = Attempts(), Attempts()
    before.failed(3, 9)
    before.failed(5, 6)
    assert before.ranges() == [(3, 5, 1), (5, 6, 2), (6, 9, 1)]
    after.load(before.ranges())
    assert after.ranges() == before.ranges()


def test_offsets_that_are_loaded_one_by_one_become_ranges():
    attempts = Attempts()
    attempts.load((offset, offset + 1, 1) for offset in range(1000))
    assert attempts.ranges() == [(0, 1000, 1)]


def test_a_count_that_is_told_late_or_twice_changes_nothing():
    attempts = Attempts()
    attempts.failed(0, 4)
    attempts.failed(2, 6)
    known = attempts.ranges()
    for told in [*known, (0, 6, 1)]:
        attempts.put_at_least(*told)
    assert attempts.ranges() == known == [(0, 2, 1), (2, 4, 2), (4, 6, 1)]
    attempts.put_at_least(1, 8, 2)
    assert attempts.ranges() == [(0, 1, 1), (1, 8, 2)]


def test_counting_ends_somewhere() -> None:
    attempts = Attempts()
    attempts.put(0, 10, MOST_COUNTED - 1)
    for _ in range(3):
        attempts.failed(2, 5)
    assert attempts.ranges() == [(0, 2, MOST_COUNTED - 1), (2, 5, MOST_COUNTED), (5, 10, MOST_COUNTED - 1)]
