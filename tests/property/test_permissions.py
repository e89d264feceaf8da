"""Permissions against Python's own regular expressions, and rules against their way out and in again."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstem.broker.access import AclAccess
from mainstem.broker.access.acls import Acl, AclTable
from mainstem.broker.access.names import rule_name
from mainstem.fronts.admin.patterns import Names, parse, shortest
from mainstem.fronts.admin.patterns import written as pattern_of
from mainstem.fronts.admin.permissions import OPERATIONS, PermissionEntry, rules_of, written
from mainstem.model.errors import InvalidRequest

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = [
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "a.b",
    "axb",
    ".",
    "a.",
    "$a",
    "^a",
    "a|b",
    "(a)",
    "*",
    "a*",
    "\\a",
    "[a]",
]
VHOSTS = ("/", "a", "a/b")
# Pieces of expressions, in every order, most of which make sense.
pieces = st.sampled_from(
    ["^", "$", ".*", "a", "b", "|", "(", ")", "(?:", r"\.", "[.]", ".", "+", "?", "^(a|b)$"]
)
some_names = st.builds(Names, st.sampled_from(["a", "ab", "b", "/", "*x", "%", ""]), st.booleans()).filter(
    lambda names: names.text or names.is_prefix
)


@unhurried
@given(st.lists(pieces, min_size=1, max_size=8).map("".join), st.lists(st.sampled_from(NAMES), min_size=1))
def test_an_expression_is_taken_for_what_it_is_or_not_at_all(pattern, names):
    try:
        found = parse(pattern)
    except InvalidRequest:
        return
    for name in names:
        matches = pattern != "" and re.search(pattern, name) is not None
        assert any(one.covers(Names(name, False)) for one in found) == matches, (pattern, name)


@given(st.sets(some_names))
def test_what_is_written_is_read_as_the_same(found):
    assert parse(pattern_of(found)) == shortest(found)


rules = st.builds(
    Acl,
    kind=st.sampled_from(("topic", "topic", "topic", "group")),
    name=st.builds(rule_name, st.sampled_from(VHOSTS), st.sampled_from(["a", "ab", "b", "/x", "*"])),
    pattern=st.sampled_from(("literal", "prefixed")),
    principal=st.sampled_from(("User:x", "User:y", "User:*")),
    host=st.sampled_from(("*", "*", "1.1.1.1")),
    operation=st.sampled_from(("all", "read", "write", "create", "describe")),
    permission=st.sampled_from(("allow", "allow", "deny")),
)
wide = st.sampled_from(
    [
        Acl("topic", "*", "literal", "User:x", "*", "read", "allow"),
        Acl("topic", "/a/", "prefixed", "User:x", "*", "write", "allow"),
        Acl("topic", "/", "prefixed", "User:y", "*", "all", "allow"),
        Acl("topic", "*", "literal", "User:*", "*", "write", "deny"),
    ]
)


@unhurried
@given(st.lists(st.one_of(rules, wide), max_size=8))
def test_permissions_never_allow_more_than_the_rules_and_the_same_where_rules_are_permissions(held):
    table, again = AclTable(), AclTable()
    for rule in held:
        table.add(rule)
    for permission in written(table, VHOSTS, True)[0]:
        made, refused = rules_of(PermissionEntry(**permission), permission["vhost"])
        assert not refused
        for rule in made:
            again.add(rule)
    before, after = (AclAccess(one, allow_by_default=False) for one in (table, again))
    plain = all(
        rule.permission == "allow" and rule.host == "*" and rule.principal != "User:*" for rule in held
    )
    for vhost in VHOSTS:
        for name in ("a", "ab", "abc", "b", "/x", "/xy", "*", "*x", "z"):
            for operation in OPERATIONS.values():
                for who in ("User:x", "User:y"):
                    question = (who, "2.2.2.2", operation, "topic", rule_name(vhost, name))
                    assert after.allows(*question) <= before.allows(*question), question
                    assert not plain or after.allows(*question) == before.allows(*question), question
