"""Rules against a model that knows no index and remembers nothing."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstem.broker.access import AclAccess
from mainstem.broker.access.acls import Acl, AclTable
from mainstem.broker.access.book import AccessBook, AclAdded, AclRemoved
from mainstem.broker.access.names import rule_name, split

NAMES = ("*", "a", "ab", "abc", "b", "/a/b", "/a/", "/", "/a/bc", "/ab/c")
WHO = ("User:x", "User:y", "User:*")
HOSTS = ("1.1.1.1", "2.2.2.2", "*")
OPERATIONS = ("all", "read", "write", "describe", "alter_configs", "describe_configs")

rules = st.builds(
    Acl,
    kind=st.sampled_from(("topic", "group")),
    name=st.sampled_from(NAMES),
    pattern=st.sampled_from(("literal", "prefixed")),
    principal=st.sampled_from(WHO),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from(OPERATIONS),
    permission=st.sampled_from(("allow", "deny")),
)
questions = st.tuples(
    st.sampled_from(WHO[:2]),
    st.sampled_from(HOSTS[:2]),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(("topic", "group")),
    st.sampled_from(NAMES[1:]),
)
# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
GRANTS = {
    "describe": {"describe", "read", "write"},
    "describe_configs": {"describe_configs", "alter_configs"},
}


def model(held, default, who, host, operation, kind, name):
    def covers(acl):
        if acl.pattern == "prefixed":
            return name.startswith(acl.name)
        return acl.name in ("*", name)

    about = [acl for acl in held if acl.kind == kind and covers(acl)]
    if not about:
        return default
    mine = [acl for acl in about if acl.principal in (who, "User:*") and acl.host in (host, "*")]
    if any(acl.permission == "deny" and acl.operation in ("all", operation) for acl in mine):
        return False
    enough = {"all"} | GRANTS.get(operation, {operation})
    if kind == "topic" and name.startswith("/"):  # in a namespace
        mine = [acl for acl in mine if (acl.pattern, acl.name) != ("literal", "*")]
    return any(acl.permission == "allow" and acl.operation in enough for acl in mine)


@unhurried
@given(st.lists(st.one_of(st.tuples(st.booleans(), rules), questions), max_size=40), st.booleans())
def test_decisions_follow_the_rules_of_the_moment_however_often_they_change(steps, default):
    table, held = AclTable(), set()
    access = AclAccess(table, allow_by_default=default)
    for step in steps:
        if len(step) == 2:
            adding, rule = step
            (table.add if adding else table.remove)(rule)
            (held.add if adding else held.discard)(rule)
            assert set(table) == held
        else:
            assert access.allows(*step) == model(held, default, *step)


@unhurried
@given(st.lists(rules, max_size=8), st.sampled_from(WHO[:2]), st.sampled_from(OPERATIONS[1:]))
def test_some_resource_is_allowed_if_one_of_the_names_that_matter_is(held, who, operation):
    table = AclTable()
    for rule in held:
        table.add(rule)
    access = AclAccess(table, allow_by_default=False)
    # Names that the rules tell apart: each of theirs, one longer than each, and one that none knows.
    names = {rule.name for rule in held} - {"*"} | {rule.name + "~" for rule in held} | {"~"}
    some = any(access.allows(who, "1.1.1.1", operation, "topic", name) for name in names)
    assert access.allows_any(who, "1.1.1.1", operation, "topic") == some


@unhurried
@given(
    st.lists(rules, max_size=8),
    st.sampled_from(WHO[:2]),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(("/", "a", "ab", "b")),
    st.booleans(),
)
def test_a_namespace_is_open_if_one_of_the_names_in_it_is_allowed(held, who, operation, namespace, default):
    table = AclTable()
    for rule in held:
        table.add(rule)
    access = AclAccess(table, allow_by_default=default)
    names = {rule.name for rule in held} | {rule.name + "~" for rule in held} | {rule_name(namespace, "~")}
    inside = [name for name in names if name != "*" and split(name) and split(name)[0] == namespace]
    some = any(access.allows(who, "1.1.1.1", operation, "topic", name) for name in inside)
    assert access.allows_in(who, "1.1.1.1", operation, namespace) == some


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_no_two_things_share_a_name(namespace, name, other_namespace, other):
    named = rule_name(namespace, name)
    assert split(named) == (namespace, name)
    assert (named == rule_name(other_namespace, other)) == ((namespace, name) == (other_namespace, other))
    # A prefix is the prefix of what begins so, in the same namespace, and of nothing else.
    assert rule_name(namespace, name + other).startswith(named)
    if rule_name(other_namespace, other).startswith(named):
        assert (other_namespace, other[: len(name)]) == (namespace, name)


@unhurried
@given(st.lists(st.tuples(st.booleans(), rules), max_size=30))
def test_a_dump_rebuilds_the_rules(steps):
    book, again = AccessBook(), AccessBook()
    for adding, rule in steps:
        book.apply(AclAdded(rule) if adding else AclRemoved(rule))
    for delta in book.dump():
        again.apply(delta)
    assert set(again.acls) == set(book.acls)
