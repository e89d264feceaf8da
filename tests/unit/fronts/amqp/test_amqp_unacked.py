"""Deliveries that are held, against a model that holds them one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.fronts.amqp.unacked import Held, Unacked, stretches


def _held(unacked: Unacked) -> list[tuple[int, int]]:
    """(tag, offset) of all that is left; takes it."""
    return [pair for run in unacked.take_all() for pair in _pairs(run)]


def _pairs(run: Held) -> list[tuple[int, int]]:
    return [(tag, run.first + tag - run.tag) for tag in range(run.tag, run.stop)]


def _three_runs() -> Unacked:
    unacked = Unacked()
    for tag, stop, first in ((1, 4, 100), (4, 5, 200), (5, 9, 300)):
        unacked.hold(Held(tag, stop, None, 0, first, None))  # type: ignore[arg-type]
    return unacked


def test_taking_a_whole_run_leaves_the_others() -> None:
    unacked = _three_runs()
    taken, missing = unacked.take(1, 3)
    assert [pair for run in taken for pair in _pairs(run)] == [(1, 100), (2, 101), (3, 102)]
    assert missing is None
    assert unacked.count == 5


def test_taking_from_the_middle_splits_a_run() -> None:
    unacked = _three_runs()
    assert unacked.take(6, 7)[0][0].first == 301
    assert _held(unacked) == [(1, 100), (2, 101), (3, 102), (4, 200), (5, 300), (8, 303)]


def test_a_tag_that_is_not_held_is_named_and_those_before_it_are_taken() -> None:
    unacked = _three_runs()
    unacked.take(3, 3)
    taken, missing = unacked.take(2, 5)
    assert [run.tag for run in taken] == [2]
    assert missing == 3


def test_everything_up_to_a_tag_needs_that_tag() -> None:
    unacked = _three_runs()
    assert unacked.take_upto(9) is None
    assert unacked.count == 8
    assert unacked.take_upto(6) is not None
    assert unacked.take_upto(6) is None
    assert unacked.take_upto(0) is not None
    assert unacked.take_upto(0) == []


def test_what_was_taken_can_be_put_back() -> None:
    unacked = _three_runs()
    first, _ = unacked.take(2, 5)
    second, _ = unacked.take(1, 1)
    unacked.put_back(first)
    unacked.put_back(second)
    assert unacked.count == 8
    assert [tag for tag, _ in _held(unacked)] == list(range(1, 9))


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("take"), st.integers(0, 60), st.integers(0, 8)),
        st.tuples(st.just("upto"), st.integers(0, 60), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(_STEPS)
def test_runs_of_tags_are_the_same_as_single_ones(steps: list[tuple[str, int, int]]) -> None:
    unacked, model, next_tag = Unacked(), {}, 1
    for what, number, more in steps:
        if what == "hold":
            unacked.hold(Held(next_tag, next_tag + number, None, 0, next_tag * 10, None))  # type: ignore[arg-type]
            model |= {next_tag + index: next_tag * 10 + index for index in range(number)}
            next_tag += number
        elif what == "take":
            taken, missing = unacked.take(number, number + more)
            wanted = []
            for tag in range(number, number + more + 1):
                if tag not in model:
                    assert missing == tag
                    break
                wanted.append((tag, model.pop(tag)))
            else:
                assert missing is None
            assert [pair for run in taken for pair in _pairs(run)] == wanted
        else:
            found = unacked.take_upto(number)
            if number and number not in model:
                assert found is None
            else:
                gone = [tag for tag in model if tag <= number or not number]
                assert found is not None
                assert [pair for run in found for pair in _pairs(run)] == [(t, model.pop(t)) for t in gone]
        assert unacked.count == len(model)
    assert _held(unacked) == sorted(model.items())


def test_many_single_runs_taken_from_the_front_do_not_pile_up() -> None:
    unacked = Unacked()
    for tag in range(1, 1001):
        unacked.hold(Held(tag, tag + 1, None, 0, tag, None))  # type: ignore[arg-type]
    for tag in range(1, 1001):
        assert unacked.take(tag, tag)[1] is None
    assert len(unacked._runs) <= 64


def test_runs_that_follow_each_other_are_settled_as_one() -> None:
    one, other = object(), object()
    runs = [
        (1, 3, one, 0, 10),
        (3, 4, one, 0, 12),
        (4, 5, one, 0, 14),
        (5, 7, other, 0, 15),
        (7, 8, other, 1, 17),
    ]
    taken = [Held(tag, stop, queue, lane, first, None) for tag, stop, queue, lane, first in runs]  # type: ignore[arg-type]
    assert list(stretches(taken)) == [
        (one, 0, 10, 13),
        (one, 0, 14, 15),
        (other, 0, 15, 17),
        (other, 1, 17, 18),
    ]
    assert list(stretches([])) == []
