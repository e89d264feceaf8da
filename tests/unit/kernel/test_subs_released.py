"""How often a message was given back, with and without having failed, beside a plain count for each."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mainstem.kernel.subs.lane import Lane

END = 12
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["failed", "released", "untouched", "ack"]), st.integers(0, END), st.integers(1, 6)
    ),
    max_size=30,
)


def test_what_was_released_was_acquired_and_did_not_fail():
    lane = Lane(end=3)
    for _ in range(5):
        lane.take(3)
        lane.give_back(0, 2, failed=False, released=True)
        lane.give_back(2, 3, failed=False)
    assert [lane.acquired(offset) for offset in range(3)] == [5, 5, 0]
    assert [lane.attempts(offset) for offset in range(3)] == [0, 0, 0]
    lane.take(1)
    lane.give_back(0, 1)
    assert (lane.acquired(0), lane.attempts(0)) == (6, 1)


def test_an_acknowledged_message_is_forgotten():
    lane = Lane(end=2)
    lane.take(2)
    lane.give_back(0, 2, failed=False, released=True)
    lane.ack(0, 1)
    assert [lane.acquired(offset) for offset in range(2)] == [0, 1]
    lane.seek(0)
    assert [lane.acquired(offset) for offset in range(2)] == [0, 0]


@given(STEPS)
def test_counts_are_those_of_a_plain_count(steps):
    lane, failed, acquired = Lane(end=END), Counter(), Counter()
    for kind, first, length in steps:
        lane.take(END)
        stop = min(first + length, END)
        if kind == "ack":
            lane.ack(first, stop)
            for offset in range(first, stop):
                failed[offset] = acquired[offset] = 0
            continue
        left = [offset for offset in range(first, stop) if not lane.is_acked(offset)]
        lane.give_back(first, stop, failed=kind == "failed", released=kind == "released")
        failed.update(left if kind == "failed" else ())
        acquired.update(left if kind != "untouched" else ())
    assert [lane.attempts(offset) for offset in range(END)] == [failed[offset] for offset in range(END)]
    assert [lane.acquired(offset) for offset in range(END)] == [acquired[offset] for offset in range(END)]
