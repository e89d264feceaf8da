from __future__ import annotations

import random

from mainstem.kernel.subs.attempts import Attempts


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
        assert attempts.dump() == model
        assert attempts.of(first) == model.get(first, 0)
        assert bool(attempts) == bool(model)


def test_what_is_dumped_can_be_loaded():
    before, after = Attempts(), Attempts()
    before.failed(3, 9)
    before.failed(5, 6)
    after.load(before.dump())
    assert after.dump() == {3: 1, 4: 1, 5: 2, 6: 1, 7: 1, 8: 1}
