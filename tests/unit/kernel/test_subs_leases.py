from __future__ import annotations

import random

from mainstem.kernel.subs.leases import SPARE_ENTRIES, Lease, Leases


def test_a_lease_is_due_at_its_deadline_and_then_held_no_more():
    leases = Leases()
    leases.hold("q", 0, 10, 500, "a")
    assert leases.due(499) == []
    assert leases.next_due_ms() == 500
    assert leases.due(500) == [Lease("q", 0, 10, 500, "a")]
    assert leases.due(500) == []
    assert leases.count == 0
    assert leases.next_due_ms() is None


def test_what_is_released_is_not_due():
    leases = Leases()
    leases.hold("q", 0, 10, 500, "a")
    assert leases.release("q", 3, 5, "a") == [Lease("q", 3, 5, 500, "a")]
    assert leases.release("q", 0, 1, "a") == [Lease("q", 0, 1, 500, "a")]
    assert leases.count == 7
    assert [(due.first, due.stop) for due in leases.due(500)] == [(1, 3), (5, 10)]


def test_only_the_holder_can_release_or_renew():
    leases = Leases()
    leases.hold("q", 0, 5, 500, "a")
    leases.hold("q", 5, 10, 500, "b")
    assert leases.release("q", 0, 10, "b") == [Lease("q", 5, 10, 500, "b")]
    assert leases.renew("q", 0, 10, 900, "b") == 0
    assert leases.renew("nowhere", 0, 10, 900, "a") == 0
    assert leases.holder_of("q", 4) == "a"
    assert leases.holder_of("q", 5) is None


def test_a_renewed_part_is_due_later_and_the_rest_on_time():
    leases = Leases()
    leases.hold("q", 0, 10, 500, "a")
    assert leases.renew("q", 4, 6, 800, "a") == 2
    assert [(due.first, due.stop) for due in leases.due(500)] == [(0, 4), (6, 10)]
    assert leases.next_due_ms() == 800
    assert leases.due(900) == [Lease("q", 4, 6, 800, "a")]


def test_a_deadline_can_be_moved_nearer():
    leases = Leases()
    leases.hold("q", 0, 2, 500, "a")
    leases.renew("q", 0, 2, 100, "a")
    assert leases.next_due_ms() == 100
    assert len(leases.due(100)) == 1


def test_a_new_holder_takes_over():
    leases = Leases()
    leases.hold("q", 0, 10, 500, "a")
    leases.hold("q", 2, 4, 600, "b")
    leases.hold("q", 4, 4, 600, "nobody")
    assert [leases.holder_of("q", offset) for offset in (1, 2, 3, 4)] == ["a", "b", "b", "a"]
    assert leases.count == 10


def test_all_that_a_gone_holder_had_is_found():
    leases = Leases()
    leases.hold("q", 0, 5, 500, "a")
    leases.hold("q", 5, 7, 500, "b")
    leases.hold("r", 1, 2, 400, "a")
    gone = leases.release_all("a")
    assert [(lease.lane, lease.first, lease.stop) for lease in gone] == [("q", 0, 5), ("r", 1, 2)]
    assert list(leases) == [Lease("q", 5, 7, 500, "b")]


def test_a_lane_can_be_forgotten():
    leases = Leases()
    leases.hold("q", 0, 5, 500, "a")
    leases.hold("r", 0, 3, 600, "a")
    leases.forget("q")
    leases.forget("q")
    assert leases.count == 3
    assert leases.next_due_ms() == 600


def test_entries_that_outlived_their_lease_do_not_pile_up():
    leases = Leases()
    leases.hold("q", 0, 1, 10**9, "slow")
    for offset in range(1, 20_000):
        leases.hold("q", offset, offset + 1, 10**6, "a")
        leases.release("q", offset, offset + 1, "a")
    assert len(leases._heap) <= SPARE_ENTRIES + 10
    assert leases.next_due_ms() == 10**9


def test_any_changes_agree_with_a_dict():
    chance = random.Random(11)
    leases, model, now_ms = Leases(), {}, 0  # model: (lane, offset) -> (deadline, holder)
    for _ in range(6000):
        lane, holder = chance.choice("qr"), chance.choice("abc")
        first = chance.randrange(60)
        stop = first + chance.randrange(12)
        deadline_ms = now_ms + chance.randrange(1, 60)
        places = [(lane, offset) for offset in range(first, stop)]
        mine = [place for place in places if place in model and model[place][1] == holder]
        what = chance.random()
        if what < 0.4:
            leases.hold(lane, first, stop, deadline_ms, holder)
            model.update((place, (deadline_ms, holder)) for place in places)
        elif what < 0.6:
            assert leases.renew(lane, first, stop, deadline_ms, holder) == len(mine)
            model.update((place, (deadline_ms, holder)) for place in mine)
        elif what < 0.8:
            released = leases.release(lane, first, stop, holder)
            assert spread(released) == {place: model.pop(place) for place in mine}
        elif what < 0.82:
            gone = {place: held for place, held in model.items() if held[1] == holder}
            assert spread(leases.release_all(holder)) == gone
            model = {place: held for place, held in model.items() if place not in gone}
        else:
            now_ms += chance.randrange(20)
            due = {place: held for place, held in model.items() if held[0] <= now_ms}
            assert spread(leases.due(now_ms)) == due
            model = {place: held for place, held in model.items() if place not in due}
        assert spread(leases) == model
        assert leases.count == len(model)
        assert leases._live == len(list(leases))
        assert leases.next_due_ms() == min((held[0] for held in model.values()), default=None)


def spread(leases):
    return {
        (lease.lane, offset): (lease.deadline_ms, lease.holder)
        for lease in leases
        for offset in range(lease.first, lease.stop)
    }
