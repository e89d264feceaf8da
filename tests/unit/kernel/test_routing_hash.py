import random
from collections import Counter

import pytest

from mainstem.kernel.routing.binding import Arguments, Binding, Target
from mainstem.kernel.routing.hash_tree import Branch, ConsistentHash, hash_of
from mainstem.kernel.routing.router import Router
from mainstem.model.errors import InvalidRequest
from mainstem.model.labels import Labels

NAMES = ("key", "header", "property", "later", "match", "before", "beside")
KEYS = [f"key-{number}" for number in range(4000)]


def bound(queue, weight=1):
    return Binding("e", Target("queue", queue), str(weight))


def tree_of(bindings):
    tree = ConsistentHash({})
    for binding in bindings:
        tree.add(binding)
    return tree


def picks(tree, keys=KEYS):
    return {key: next(iter(tree.match([key], {}))).target.name for key in keys}


def shape(there):
    """Everything that decides where keys lead."""
    if isinstance(there, Branch):
        return there.weight, {digit: shape(child) for digit, child in there.children.items()}
    return there.number, there.weight, there.bindings


def test_each_key_goes_to_one_queue_and_always_to_the_same():
    router = Router(is_queue=bool)
    router.add_exchange("e", "x-consistent-hash")
    assert router.route("e", ["k"]) == frozenset()
    for number in range(5):
        router.bind("e", Target("queue", f"q{number}"), "1")
    for key in KEYS[:50]:
        assert len(router.route("e", [key])) == 1
        assert router.route("e", [key]) == router.route("e", [key])
    assert not router.depends_on_headers("e")


@pytest.mark.parametrize("count", [2, 3, 10, 50])
def test_equal_weights_get_equal_shares(count):
    shares = Counter(picks(tree_of(bound(f"q{number}") for number in range(count))).values())
    fair = len(KEYS) / count
    assert len(shares) == count
    assert all(abs(share - fair) < 5 * fair**0.5 for share in shares.values())


def test_shares_follow_weights():
    weights = {"a": 1, "b": 2, "c": 5, "d": 8, "e": 1, "f": 3}
    shares = Counter(picks(tree_of(bound(name, weight) for name, weight in weights.items())).values())
    for name, weight in weights.items():
        fair = len(KEYS) * weight / sum(weights.values())
        assert abs(shares[name] - fair) < 5 * fair**0.5


def test_a_queue_that_comes_or_goes_moves_few_keys():
    bindings = [bound(f"q{number}") for number in range(40)]
    tree = tree_of(bindings)
    before = picks(tree)
    tree.add(bound("new"))
    after = picks(tree)
    moved = sum(before[key] != after[key] for key in KEYS)
    assert 0 < moved < 4 * len(KEYS) / 41  # where a plain remainder would move nearly all
    tree.remove(bound("new"))
    assert picks(tree) == before


def test_it_does_not_matter_in_which_order_bindings_came_or_what_was_there_before():
    bindings = [bound(f"q{number}", number % 7 + 1) for number in range(300)]
    gone = [bound(f"gone{number}") for number in range(300)]
    expected = shape(tree_of(bindings)._root)
    mixed = bindings + gone
    random.Random(1).shuffle(mixed)
    tree = tree_of(mixed)
    random.Random(2).shuffle(gone)
    for one in gone:
        tree.remove(one)
    assert shape(tree._root) == expected
    assert sorted(tree) == sorted(bindings)
    for one in bindings:
        tree.remove(one)
    assert (tree._root.children, tree._root.weight) == ({}, 0)


def test_what_was_never_bound_can_be_removed_without_harm():
    tree = tree_of(bound(name) for name in "ab")
    before = shape(tree._root)
    tree.remove(bound("c"))
    tree.remove(bound("a")._replace(arguments=Arguments({"n": 1})))
    assert shape(tree._root) == before


def test_where_a_key_leads_is_the_same_in_every_process():
    assert hash_of("orders") == 15396940609477705549
    tree = tree_of(bound(name) for name in "abcdef")
    assert "".join(picks(tree, KEYS[:12]).values()) == "ffbbfaffcfda"


def test_one_queue_bound_twice_gets_both_shares():
    router = Router(is_queue=bool)
    router.add_exchange("e", "x-consistent-hash")
    router.bind("e", Target("queue", "a"), "1")
    router.bind("e", Target("queue", "a"), "2")
    router.bind("e", Target("queue", "a"), "2", {"again": True})
    router.bind("e", Target("queue", "b"), "1")
    shares = Counter(name for key in KEYS for name in router.route("e", [key]))
    assert abs(shares["b"] - len(KEYS) / 4) < 150
    router.unbind("e", Target("queue", "a"), "2")
    assert len(router.bindings_from("e")) == 3
    assert Counter(name for key in KEYS for name in router.route("e", [key])) == shares


def test_of_several_keys_the_first_counts():
    tree = tree_of(bound(name) for name in "abc")
    for key in KEYS[:20]:
        assert list(tree.match([key, "other"], {})) == list(tree.match([key], {}))


def test_a_header_may_stand_for_the_key():
    router = Router(is_queue=bool)
    router.add_exchange("e", "x-consistent-hash", arguments={"hash-header": "user"})
    for name in "abcdef":
        router.bind("e", Target("queue", name), "1")
    assert router.depends_on_headers("e")
    of = {user: router.route("e", [f"k{user}"], {"user": user}) for user in range(100)}
    assert len(set(of.values())) == 6
    assert all(router.route("e", ["other"], {"user": user}) == found for user, found in of.items())
    assert router.route("e", ["k"], {"user": "x"}) == router.route("e", ["l"], {"user": b"x"})
    assert router.route("e", ["k"], {"user": b"\xff"})
    assert router.route("e", ["k"], {}) == router.route("e", ["l"], None)


@pytest.mark.parametrize("weight", ["", "0", "-1", "1.5", "a", "²", "٣", " 1", "1000001", "9" * 5000])
def test_a_weight_is_a_whole_number(weight):
    router = Router(is_queue=bool)
    router.add_exchange("e", "x-consistent-hash")
    with pytest.raises(InvalidRequest, match="weight"):
        router.bind("e", Target("queue", "q"), weight)
    assert not router.has_bindings("e")


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_a_property_may_stand_for_the_key(name):
    router = Router(is_queue=bool)
    router.add_exchange("e", "x-consistent-hash", arguments={"hash-property": name})
    for queue in "abcdef":
        router.bind("e", Target("queue", queue), "1")
    of = {
        value: router.route("e", [f"k{value}"], Labels({}, {name: value})) for value in map(str, range(100))
    }
    assert len(set(of.values())) == 6
    for value, found in of.items():
        assert router.route("e", ["other"], Labels({"h": 1}, {name: value, "more": "x"})) == found
    # Those without it are all alike, and headers do not stand in for it.
    without = {router.route("e", [key], Labels({name: key}, {"more": key})) for key in KEYS[:50]}
    assert without == {router.route("e", ["k"], None)} == {router.route("e", ["k"], {name: "x"})}


def test_equal_values_lead_to_equal_places_by_key_by_header_and_by_property():
    kinds = {"key": {}, "header": {"hash-header": "h"}, "property": {"hash-property": "message_id"}}
    router = Router(is_queue=bool)
    for name, arguments in kinds.items():
        router.add_exchange(name, "x-consistent-hash", arguments=arguments)
        for queue in "abcdef":
            router.bind(name, Target("queue", queue), "1")
    for value in KEYS[:30]:
        by_key = router.route("key", [value])
        assert router.route("header", [""], {"h": value}) == by_key
        assert router.route("property", [""], Labels({}, {"message_id": value})) == by_key


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": 1}, "hash-header is a name"),
        ({"hash-property": ["message_id"]}, "hash-property is a name"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-property": ""}, "Unsupported property: "),
        ({"hash-property": "message_id", "hash-header": "h"}, "are mutually exclusive"),
    ],
)
def test_what_it_cannot_go_by_is_refused(arguments, text):
    with pytest.raises(InvalidRequest, match=text):
        Router(is_queue=bool).add_exchange("e", "x-consistent-hash", arguments=arguments)


def test_exchanges_that_pick_for_each_message_are_told_from_those_that_go_by_headers():
    router = Router(is_queue=bool)
    for name, kind, arguments in (
        ("key", "x-consistent-hash", {}),
        ("header", "x-consistent-hash", {"hash-header": "h"}),
        ("property", "x-consistent-hash", {"hash-property": "timestamp"}),
        ("later", "x-delayed-message", {"x-delayed-type": "x-local-random"}),
        ("match", "headers", {}),
        ("before", "fanout", {}),
        ("beside", "topic", {}),
    ):
        router.add_exchange(name, kind, arguments=arguments)
    assert {name for name in NAMES if router.picks_each(name)} == {"property", "later"}
    router.bind("before", Target("exchange", "property"))
    router.set_alternate("beside", "before")
    assert {name for name in NAMES if router.picks_each(name)} == {"property", "later", "before", "beside"}
    router.remove_exchange("property")
    assert {name for name in NAMES if router.picks_each(name)} == {"later"}
    assert router.depends_on_headers("header")
    assert router.depends_on_headers("match")


def test_a_random_exchange_picks_one_and_all_in_turn():
    router = Router(is_queue=bool)
    router.add_exchange("e", "x-local-random")
    assert router.route("e", ["k"]) == frozenset()
    for name in "abcd":
        router.bind("e", Target("queue", name))
    assert router.depends_on_headers("e")
    found = [router.route("e", ["k"]) for _ in range(400)]
    assert all(len(one) == 1 for one in found)
    assert all(70 < count < 130 for count in Counter(found).values())
    router.unbind("e", Target("queue", "b"))
    router.unbind("e", Target("queue", "d"))
    assert {name for _ in range(100) for name in router.route("e", ["k"])} == {"a", "c"}
    assert len(router.bindings_from("e")) == 2
