"""Room for large requests and large answers."""

from __future__ import annotations

from mainstem.fronts.kafka.budget import AnswerRoom, Budget


class Claimant:
    def __init__(self) -> None:
        self.granted_bytes = 0

    def granted(self, size: int) -> None:
        self.granted_bytes += size


def test_requests_are_let_in_while_there_is_room():
    budget = Budget(100)
    assert budget.reserve(Claimant(), 60)
    assert budget.reserve(Claimant(), 40)
    late = Claimant()
    assert not budget.reserve(late, 1)
    budget.release(40)
    assert late.granted_bytes == 1


def test_one_request_larger_than_everything_is_let_in_alone():
    budget = Budget(100)
    assert budget.reserve(Claimant(), 500)
    late = Claimant()
    assert not budget.reserve(late, 1)
    budget.release(500)
    assert late.granted_bytes == 1


def test_nobody_overtakes_in_the_line():
    budget = Budget(100)
    budget.reserve(Claimant(), 90)
    large, small = Claimant(), Claimant()
    assert not budget.reserve(large, 50)
    assert not budget.reserve(small, 5)
    budget.release(90)
    assert (large.granted_bytes, small.granted_bytes) == (50, 5)


def test_whoever_leaves_the_line_makes_way():
    budget = Budget(100)
    budget.reserve(Claimant(), 90)
    large, small = Claimant(), Claimant()
    budget.reserve(large, 50)
    budget.reserve(small, 5)
    budget.leave(large)
    assert (large.granted_bytes, small.granted_bytes) == (0, 5)


def test_giving_back_room_keeps_a_place_in_the_line():
    """A connection may wait for its next request while its last one is still being answered."""
    budget = Budget(100)
    both = Claimant()
    assert budget.reserve(both, 90)
    assert not budget.reserve(both, 90)
    budget.release(90)
    assert both.granted_bytes == 90


def test_answers_get_smaller_as_unread_ones_pile_up_and_never_vanish():
    room = AnswerRoom(1000 << 10)
    sizes = []
    for _ in range(10):
        sizes.append(room.allowed(800 << 10))
        room.held += sizes[-1]
    assert sizes[0] == 500 << 10
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == AnswerRoom.SMALLEST
    assert room.is_full
    assert room.allowed(10) == 10


def test_what_is_in_memory_already_counts_without_waiting():
    budget = Budget(100)
    budget.take(150)
    late = Claimant()
    assert not budget.is_short
    assert not budget.reserve(late, 10)
    assert budget.is_short
    budget.release(150)
    assert late.granted_bytes == 10
    assert not budget.is_short
