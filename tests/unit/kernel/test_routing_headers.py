from decimal import Decimal

import pytest

from mainstem.kernel.routing.binding import Arguments, Target
from mainstem.kernel.routing.exact import exact
from mainstem.kernel.routing.router import Router
from mainstem.model.errors import InvalidRequest


def matches(arguments, headers):
    router = Router(is_queue=bool)
    router.add_exchange("e", "headers")
    router.bind("e", Target("queue", "q"), "", arguments)
    return router.route("e", ["k"], headers) == {"q"}


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),  # `all` unless said otherwise
        ({"a": 1, "b": 2}, {"b": 2}, False),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}, False),
        ({"x-match": "any", "a": 1}, None, False),
        ({"a": 1}, {}, False),
        # Nothing to ask for: all of it is there, and none of it.
        ({"x-match": "all"}, {}, True),
        ({"x-match": "all"}, {"a": 1}, True),
        (None, None, True),
        ({"x-match": "any"}, {}, False),
        ({"x-match": "any"}, {"a": 1}, False),
        # No value asks for presence only.
        ({"a": None}, {"a": 1}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"b": 1}, False),
        ({"x-match": "any", "a": None, "b": 1}, {"a": "whatever"}, True),
        ({"a": 1}, {"a": None}, False),
        # Types count.
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": Decimal(1)}, False),
        ({"a": "x"}, {"a": b"x"}, True),
        ({"a": b"x"}, {"a": "x"}, True),
        ({"a": b"\xff"}, {"a": b"\xff"}, True),
        ({"a": b"\xff"}, {"a": "\xff"}, False),
        ({"a": [1, "x"]}, {"a": [1, b"x"]}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": {"n": 1}}, {"a": {"n": 1}}, True),
        ({"a": {"n": 1}}, {"a": {"n": 1, "m": 2}}, False),
        ({"a": {"n": 1}}, {"a": {"n": True}}, False),
        # What starts with x- counts only if asked to.
        ({"x-match": "all", "x-a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"b": 2}, False),
        ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"x-a": 1, "b": 2}, True),
        ({"x-match": "any", "x-a": 1, "b": 2}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),  # nothing left to ask for
        ({"x-match": "all", "x-a": 1}, {}, True),
        ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),  # x-match itself is never asked for
        ({"x-match": b"any", "a": 1, "b": 1}, {"a": 1}, True),
    ],
)
def test_headers(arguments, headers, expected):
    assert matches(arguments, headers) is expected


@pytest.mark.parametrize("mode", ["some", "", 1, None, True, ["all"]])
def test_an_unknown_way_to_match_is_refused_and_nothing_is_bound(mode):
    router = Router(is_queue=bool)
    router.add_exchange("e", "headers")
    with pytest.raises(InvalidRequest, match="x-match"):
        router.bind("e", Target("queue", "q"), "", {"x-match": mode})
    assert not router.has_bindings("e")


def test_other_exchanges_do_not_care_about_x_match():
    router = Router(is_queue=bool)
    router.add_exchange("e", "direct")
    assert router.bind("e", Target("queue", "q"), "k", {"x-match": "some"})


def test_a_binding_that_asks_for_any_of_several_headers_is_listed_once_and_goes_whole():
    router = Router(is_queue=bool)
    router.add_exchange("e", "headers")
    asked = {"x-match": "any", "a": 1, "b": 2, "c": None}
    router.bind("e", Target("queue", "q"), "", asked)
    router.bind("e", Target("queue", "r"), "", {"x-match": "any"})
    assert [one.target.name for one in router.bindings_from("e")] == ["r", "q"]
    router.unbind("e", Target("queue", "q"), "", asked)
    router.unbind("e", Target("queue", "r"), "", {"x-match": "any"})
    assert router.bindings_from("e") == []
    assert router.route("e", [""], {"a": 1, "b": 2, "c": 3}) == frozenset()


def test_a_common_header_does_not_hide_the_rare_one_a_binding_is_found_by():
    router = Router(is_queue=bool)
    router.add_exchange("e", "headers")
    for number in range(1000):
        router.bind("e", Target("queue", f"q{number}"), "", {"kind": "order", "shop": number})
    assert router.route("e", [""], {"kind": "order", "shop": 7}) == {"q7"}
    index = router._exchanges["e"].index
    assert index._by_header.count(("kind", exact("order"))) <= 1


def test_headers_that_no_binding_asks_for_are_not_looked_at():
    router = Router(is_queue=bool)
    router.add_exchange("e", "headers")
    router.bind("e", Target("queue", "q"), "", {"a": 1})
    router.bind("e", Target("queue", "r"), "", {"a": None, "b": None})
    strange = {"a": 1, "other": {1, 2}}
    assert router.route("e", [""], strange) == {"q"}
    router.remove_queue("q")
    router.remove_queue("r")
    assert not router._exchanges["e"].index._asked


def test_a_binding_asks_for_a_bounded_number_of_headers():
    router = Router(is_queue=bool)
    router.add_exchange("e", "headers")
    with pytest.raises(InvalidRequest, match="256 headers"):
        router.bind("e", Target("queue", "q"), "", {f"h{number}": number for number in range(257)})


def test_values_too_deep_or_of_no_known_type_are_refused():
    deep = "x"
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidRequest, match="32"):
        exact(deep)
    with pytest.raises(InvalidRequest, match="set"):
        exact({1, 2})


def test_arguments_are_equal_by_type_too():
    assert Arguments({"a": 1, "b": 2}) == Arguments({"b": 2, "a": 1}) == {"a": 1, "b": 2}
    assert hash(Arguments({"a": 1, "b": 2})) == hash(Arguments({"b": 2, "a": 1}))
    assert Arguments({"a": 1}) != Arguments({"a": True})
    assert Arguments({"a": 1}) != 1
    assert repr(Arguments({"a": 1})) == "Arguments({'a': 1})"
