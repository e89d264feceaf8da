"""Records that are lent: to one holder, for a time, so many times."""

from __future__ import annotations

from mainstem.kernel.subs.leased_lane import LeasedLane, Lent, Settled
from mainstem.kernel.subs.leases import Leases


def lane(end: int = 10) -> tuple[LeasedLane, Leases[LeasedLane, str]]:
    leases: Leases[LeasedLane, str] = Leases()
    made = LeasedLane(leases)
    made.grow(end)
    return made, leases


def test_the_oldest_are_lent_first_and_to_one_only():
    it, _ = lane()
    assert it.lend("a", 4, 100) == [Lent(0, 4, 1)]
    assert it.lend("b", 4, 100) == [Lent(4, 8, 1)]
    assert it.holds("a", 0, 4)
    assert not it.holds("a", 3, 5)
    assert it.in_flight == 8


def test_what_is_finished_is_done_with_for_good():
    it, _ = lane()
    it.lend("a", 10, 100)
    assert it.finish("a", 2, 4) == Settled(((2, 4),), ())
    assert (it.floor, list(it.done())) == (0, [(2, 4)])
    it.finish("a", 0, 2)
    assert (it.floor, it.left) == (4, 6)


def test_only_what_the_holder_has_is_finished():
    it, _ = lane()
    it.lend("a", 4, 100)
    it.lend("b", 4, 100)
    assert it.finish("a", 0, 8) == Settled(((0, 4),), ())


def test_what_failed_is_lent_again_with_a_higher_count():
    it, _ = lane()
    it.lend("a", 4, 100)
    assert it.fail("a", 1, 3, 5) == Settled((), ((1, 3, 1),))
    assert it.lend("b", 3, 100) == [Lent(1, 3, 2), Lent(4, 5, 1)]


def test_what_failed_too_often_is_given_up():
    it, _ = lane(1)
    for delivery in (1, 2):
        assert it.lend("a", 1, 100) == [Lent(0, 1, delivery)]
        it.fail("a", 0, 1, 3)
    it.lend("a", 1, 100)
    assert it.fail("a", 0, 1, 3) == Settled(((0, 1),), ())
    assert (it.floor, it.failed()) == (1, ())


def test_what_never_got_there_does_not_count():
    it, _ = lane()
    it.lend("a", 4, 100)
    it.undo("a", 2, 4)
    assert it.lend("b", 2, 100) == [Lent(2, 4, 1)]


def test_time_is_up_for_what_was_not_renewed():
    it, leases = lane()
    it.lend("a", 4, 100)
    it.renew("a", 0, 2, 200)
    late = [(lease.first, lease.stop) for lease in leases.due(100)]
    assert late == [(2, 4)]
    it.came_back(late, 5)
    assert it.holds("a", 0, 2)
    assert it.lend("b", 1, 300) == [Lent(2, 3, 2)]


def test_lending_on_takes_only_what_follows():
    it, _ = lane()
    it.lend("a", 4, 100)
    assert it.lend_on("a", 4, 6, 100) == [Lent(4, 6, 1)]
    it.fail("a", 0, 1, 5)
    assert it.lend_on("a", 6, 8, 100) == []  # an older one is next in turn
    assert it.lend_on("a", 6, 6, 100) == []


def test_what_is_trimmed_away_is_with_nobody():
    it, leases = lane()
    it.lend("a", 4, 100)
    it.trim(3)
    assert (it.floor, it.in_flight, leases.count) == (3, 1, 1)
    assert it.holds("a", 0, 4)  # what is left of it
    it.trim(20)
    assert (it.floor, it.left, leases.count) == (20, 0, 0)


def test_a_seek_starts_over():
    it, leases = lane()
    it.lend("a", 10, 100)
    it.finish("a", 0, 8)
    it.seek(2)
    it.grow(10)
    assert leases.count == 0
    assert it.lend("b", 100, 200) == [Lent(2, 10, 1)]


def test_replay_leaves_the_same_however_often():
    it, leases = lane()
    it.lend("a", 10, 100)
    changes = [it.finish("a", 1, 3), it.fail("a", 4, 6, 5), it.finish("a", 0, 1)]
    again = LeasedLane(leases)
    for _ in range(2):
        for change in changes:
            again.replay(change)
    assert (again.floor, tuple(again.done()), again.failed()) == (3, tuple(it.done()), it.failed())
    kept = LeasedLane(leases)
    kept.restore(it.floor, Settled(tuple(it.done()), it.failed()))
    kept.grow(10)
    assert kept.lend("b", 10, 100) == [Lent(3, 4, 1), Lent(4, 6, 2), Lent(6, 10, 1)]
