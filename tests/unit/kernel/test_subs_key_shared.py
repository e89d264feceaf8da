from __future__ import annotations

import random
from collections import Counter

import pytest

from mainstem.kernel.subs.key_shared import KeyShared


def shared(*names):
    sharing = KeyShared()
    for name in names:
        sharing.join(name)
    return sharing


def unlimited(_):
    return -1


def test_messages_of_one_key_go_to_one_consumer_in_order():
    sharing = shared("a", "b", "c")
    keys = [1, 2, 3, 1, 2, 3, 1]
    owners = {}
    indexes = []
    for consumer, given in sharing.split(keys, unlimited):
        assert given == sorted(given)
        indexes += given
        for index in given:
            assert owners.setdefault(keys[index], consumer) == consumer
    assert sorted(indexes) == list(range(7))


def test_many_keys_spread_over_all():
    sharing = shared(*"abcd")
    per_consumer = Counter(sharing.consumer_of(key) for key in range(10_000))
    assert min(per_consumer.values()) > 1500


def test_one_that_joins_takes_keys_from_others_only():
    sharing = shared("a", "b", "c")
    before = {key: sharing.consumer_of(key) for key in range(2000)}
    sharing.join("d")
    moved = {key for key in before if sharing.consumer_of(key) != before[key]}
    assert {sharing.consumer_of(key) for key in moved} == {"d"}
    assert 200 < len(moved) < 900


def test_a_key_moves_only_when_nothing_of_it_is_in_flight():
    sharing = shared("a")
    sharing.split([key for key in range(50) for _ in range(2)], unlimited)
    sharing.join("b")
    assert {sharing.consumer_of(key) for key in range(50)} == {"a"}
    for key in range(50):
        sharing.acked(key)
    assert {sharing.consumer_of(key) for key in range(50)} == {"a"}
    for key in range(50):
        sharing.given_back(key)
    assert {sharing.consumer_of(key) for key in range(50)} == {"a", "b"}


def test_without_credit_the_keys_of_a_consumer_wait_and_others_go_on():
    sharing = shared("a", "b")
    keys = list(range(40))
    credit = {"a": 3, "b": -1}
    given = dict(sharing.split(keys, credit.__getitem__))
    of_a = [key for key in keys if sharing.consumer_of(key) == "a"]
    assert given["a"] == of_a[:3]
    assert given["b"] == [key for key in keys if key not in of_a]


def test_credit_is_asked_once_so_that_none_of_a_key_overtakes():
    sharing = shared("a")
    answers = iter([0, 5])
    assert sharing.split([1, 1], lambda _: next(answers)) == []


def test_keys_of_one_that_left_wait_until_it_gave_back():
    sharing = shared("a", "b")
    key = next(key for key in range(100) if sharing.consumer_of(key) == "a")
    sharing.split([key, key], unlimited)
    sharing.leave("a")
    assert sharing.split([key], unlimited) == []
    sharing.given_back(key, 2)
    assert sharing.split([key], unlimited) == [("b", [0])]


def test_nobody_there_gets_nothing():
    assert shared().split([1, 2], unlimited) == []
    assert shared().consumer_of(1) is None


def test_acks_of_what_is_not_in_flight_change_nothing():
    sharing = shared("a")
    sharing.acked(5)
    sharing.split([5], unlimited)
    sharing.acked(5, 10)
    sharing.acked(5)
    assert sharing.split([5, 5], unlimited) == [("a", [0, 1])]


def test_nobody_joins_twice():
    with pytest.raises(ValueError, match="already"):
        shared("a", "a")


def test_whatever_happens_no_two_consumers_have_one_key():
    chance = random.Random(3)
    sharing = shared("c0")
    flying: dict[int, Counter] = {}  # key -> consumer -> how many
    joined = 1
    for _ in range(3000):
        what = chance.random()
        if what < 0.1:
            sharing.join(f"c{joined}")
            joined += 1
        elif what < 0.18 and len(sharing):
            sharing.leave(chance.choice(list(sharing)))
        elif what < 0.6:
            keys = [chance.randrange(30) for _ in range(chance.randrange(12))]
            for consumer, given in sharing.split(keys, lambda _: chance.randrange(-1, 4)):
                assert consumer in sharing
                for index in given:
                    flying.setdefault(keys[index], Counter())[consumer] += 1
        elif flying:
            key = chance.choice(list(flying))
            (sharing.acked if what < 0.8 else sharing.given_back)(key)
            flying[key].subtract(list(flying[key])[:1])
            flying[key] = +flying[key]
            if not flying[key]:
                del flying[key]
        assert all(len(of_key) == 1 for of_key in flying.values())
    assert not set(sharing._busy) ^ set(flying)
