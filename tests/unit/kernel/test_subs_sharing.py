from __future__ import annotations

import pytest

from mainstem.kernel.subs.sharing import Sharing
from mainstem.model.errors import QueueInUse


def shared(*names, **priorities):
    sharing = Sharing("shared")
    for name in names:
        sharing.join(name)
    for name, priority in priorities.items():
        sharing.join(name, priority)
    return sharing


def unlimited(_):
    return -1


def test_shares_are_even_and_the_odd_one_goes_round():
    sharing = shared("a", "b")
    assert sharing.split(5, unlimited) == [("a", 3), ("b", 2)]
    assert sharing.split(5, unlimited) == [("b", 3), ("a", 2)]
    assert sharing.split(4, unlimited) == [("a", 2), ("b", 2)]


def test_single_messages_go_round():
    sharing = shared("a", "b", "c")
    assert [sharing.split(1, unlimited)[0][0] for _ in range(5)] == ["a", "b", "c", "a", "b"]


def test_nobody_gets_more_than_its_credit_and_the_others_get_the_rest():
    credit = {"a": 1, "b": 0, "c": 10, "d": -1}
    assert dict(shared(*credit).split(30, credit.__getitem__)) == {"a": 1, "c": 10, "d": 19}
    assert dict(shared("a", "b", "c").split(30, credit.__getitem__)) == {"a": 1, "c": 10}


def test_a_higher_priority_is_served_first():
    sharing = shared(low=-1, high=5, mid=0)
    credit = {"low": 5, "high": 3, "mid": 3}
    assert sharing.split(7, credit.__getitem__) == [("high", 3), ("mid", 3), ("low", 1)]
    assert sharing.split(2, credit.__getitem__) == [("high", 2)]


def test_one_that_leaves_loses_its_turn_only():
    sharing = shared("a", "b", "c")
    sharing.split(2, unlimited)
    sharing.leave("a")
    assert sharing.split(1, unlimited) == [("c", 1)]
    sharing.leave("nobody")
    assert len(sharing) == 2


def test_a_paused_one_gets_nothing_until_it_resumes():
    sharing = shared("a", "b")
    sharing.pause("a")
    assert sharing.split(4, unlimited) == [("b", 4)]
    sharing.resume("a")
    assert dict(sharing.split(4, unlimited)) == {"a": 2, "b": 2}
    sharing.pause("a")
    sharing.leave("a")
    sharing.join("a")
    assert dict(sharing.split(4, unlimited)) == {"a": 2, "b": 2}


def test_the_only_one_gets_up_to_its_credit():
    sharing = shared("a")
    assert sharing.split(5, unlimited) == [("a", 5)]
    assert sharing.split(5, lambda _: 2) == [("a", 2)]
    assert sharing.split(5, lambda _: 0) == []
    sharing.pause("a")
    assert sharing.split(5, unlimited) == []


def test_few_messages_ask_few_consumers():
    asked = []
    sharing = shared(*range(1000))
    sharing.split(2, lambda consumer: asked.append(consumer) or -1)
    assert asked == [0, 1]


def test_an_exclusive_one_is_alone():
    sharing = Sharing("exclusive")
    sharing.join("a")
    with pytest.raises(QueueInUse):
        sharing.join("b")
    assert sharing.split(3, unlimited) == [("a", 3)]
    sharing.leave("a")
    sharing.join("b")
    assert sharing.active == "b"


def test_on_failover_the_active_one_stays_until_it_leaves():
    sharing = Sharing("failover")
    for name, priority in [("a", 0), ("b", 1), ("c", 1)]:
        sharing.join(name, priority)
    assert sharing.active == "a"
    sharing.pause("a")
    assert sharing.split(3, unlimited) == []
    sharing.leave("a")
    assert sharing.active == "b"
    assert sharing.split(3, lambda _: 2) == [("b", 2)]
    sharing.leave("b")
    sharing.leave("c")
    assert sharing.active is None
    assert sharing.split(3, unlimited) == []


def test_nothing_ready_is_split_to_nobody():
    assert shared("a").split(0, unlimited) == []
    assert shared().split(5, unlimited) == []


def test_nobody_joins_twice():
    sharing = shared("a")
    with pytest.raises(ValueError, match="already"):
        sharing.join("a")
