"""Which regular expressions rules can say, and that others are refused with the reason."""

from __future__ import annotations

import pytest

from mainstem.fronts.admin.patterns import ALL, Names, parse, written
from mainstem.model.errors import InvalidRequest


def said(*names: str) -> frozenset[Names]:
    """`orders` is a name, `orders*` the beginning of names."""
    return frozenset(Names(name.removesuffix("*"), name.endswith("*")) for name in names)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", said()),
        ("^$", said()),
        ("$^", said()),
        (".*", {ALL}),
        ("^.*$", {ALL}),
        ("^", {ALL}),
        ("(.*)", {ALL}),
        ("^orders$", said("orders")),
        ("^orders", said("orders*")),
        ("^orders.*", said("orders*")),
        ("^orders.*$", said("orders*")),
        (r"^shop\.orders$", said("shop.orders")),
        (r"^shop[.].*", said("shop.*")),
        (r"^a\-b\/c$", said("a-b/c")),
        ("^(a|b)$", said("a", "b")),
        ("^(?:a|b).*", said("a*", "b*")),
        ("^(a|b.*)$", said("a", "b*")),
        ("^a$|^b.*", said("a", "b*")),
        ("(^a$|^b$)", said("a", "b")),
        ("^shop-(new|old(er|est))$", said("shop-new", "shop-older", "shop-oldest")),
        (r"^(amq\.gen.*|amq\.default)$", said("amq.gen*", "amq.default")),
        ("^a.*|^ab$|^abc.*", said("a*")),
        ("^a$|", {ALL}),
    ],
)
def test_names_and_beginnings_of_names_can_be_said(pattern: str, names: frozenset[Names]) -> None:
    assert parse(pattern) == names


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("orders", "matches anywhere in a name"),
        ("orders$", "matches anywhere in a name"),
        ("^a|b$", "matches anywhere in a name"),
        ("^shop.orders$", "any character"),
        ("^a.+", "any character"),
        (".*orders", "goes on behind a .*"),
        ("^a.*b$", "goes on behind a .*"),
        ("^a$b", "goes on behind a $"),
        ("a^", "behind something else"),
        ("^a+$", "a + that is not .*"),
        ("^a?$", "a ? that is not .*"),
        ("^(a|b)*$", "a * that is not .*"),
        ("^a{2}$", "a { that is not .*"),
        ("^queue-[0-9]$", "set of characters"),
        ("^[^a]$", "set of characters"),
        (r"^\w$", r"has a \w"),
        ("^a\\", "has a \\"),
        ("(?i)^a$", "group with (?"),
        ("^(?!secret).*", "group with (?"),
        ("^(a", "( without a )"),
        ("^a)", ") without a ("),
        ("^" + "x" * 256, "more than 255 characters"),
        ("^" + "(a|b)" * 12 + "$", "more than 1000 alternatives"),
        ("(" * 40 + ")" * 40, "more than 16 deep"),
        ("^a$|" * 2_000, "more than 4096 characters"),
    ],
)
def test_what_rules_cannot_say_is_refused_with_the_reason(pattern: str, why: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(pattern)
    assert why in str(caught.value)


def test_what_is_written_is_plain_and_read_as_the_same() -> None:
    assert written(()) == "^$"
    assert written({ALL, Names("a", False)}) == ".*"
    assert written(said("b*", "a.b", "bc")) == r"^a\.b$|^b.*"
    odd = frozenset({Names(r"a\^$.|?*+()[]{}/", True), Names("(x)", False)})
    assert parse(written(odd)) == odd
