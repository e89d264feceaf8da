"""Stretches of partitions: limited, split and cut, with nothing lost and nothing twice."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.client.cluster import TopicPartition
from mainstem.model.errors import InvalidRequest
from mainstem.spark.ranges import (
    Range,
    limited,
    positions_from_json,
    positions_to_json,
    ranges_between,
    split,
)

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
POSITIONS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5)), st.integers(0, 10_000)
)


@given(POSITIONS)
def test_positions_survive_json(positions):
    text = json.dumps(positions_to_json(positions))
    assert positions_from_json(text) == positions
    assert positions_from_json(json.loads(text)) == positions


def test_something_else_is_not_positions():
    with pytest.raises(InvalidRequest):
        positions_from_json("[1]")


def test_only_what_lies_between_is_read():
    assert ranges_between({A: 3, B: 5}, {A: 7, B: 5}) == [Range(A, 3, 7)]


@given(POSITIONS, st.integers(1, 5000))
def test_a_limit_is_kept_and_every_partition_moves(end, most):
    start = {place: offset // 2 for place, offset in end.items()}
    reached = limited(start, end, most)
    taken = {place: reached[place] - start[place] for place in end}
    waiting = [place for place in end if end[place] > start[place]]
    assert all(start[place] <= reached[place] <= end[place] for place in end)
    assert all(taken[place] > 0 for place in waiting)
    # Who has next to nothing gives one all the same.
    assert sum(taken.values()) <= most + len(waiting)


@given(POSITIONS, st.integers(0, 40), st.none() | st.integers(1, 3000))
def test_pieces_cover_ranges_exactly(end, parts, most):
    ranges = ranges_between(dict.fromkeys(end, 0), end)
    pieces = split(ranges, parts, most)
    for one in ranges:
        mine = [piece for piece in pieces if piece.place == one.place]
        assert mine[0].start == one.start
        assert mine[-1].end == one.end
        assert all(left.end == right.start for left, right in itertools.pairwise(mine))
        assert all(len(piece) > 0 for piece in mine)
    if most is not None:
        assert all(len(piece) <= most for piece in pieces)
    if ranges:
        assert len(pieces) >= min(parts, sum(map(len, ranges)))


@given(st.integers(0, 20), st.integers(0, 20))
def test_a_cut_stays_within(start, end):
    cut = Range(A, 5, 15).cut(start, end)
    assert list(range(cut.start, cut.end)) == [i for i in range(5, 15) if start <= i < end]


def test_what_records_weigh_can_be_limited_too():
    start, end = {A: 0, B: 0}, {A: 1000, B: 100}
    reached = limited(start, end, 11_000, {A: 10, B: 1000})  # 10 kB and 100 kB wait
    assert reached == {A: 100, B: 10}
    assert limited(start, end, 200_000, {A: 10, B: 1000}) == end
    assert limited(start, end, 1, {A: 10, B: 1000}) == {A: 1, B: 1}  # or it would never go on
