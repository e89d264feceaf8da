"""How rules name what is in namespaces, and that no rule reaches into another one."""

from __future__ import annotations

import pytest

from mainstem.broker.access import AclAccess, OpenAccess
from mainstem.broker.access.acls import Acl, AclTable, check_acl
from mainstem.broker.access.names import rule_name, split
from mainstem.model.errors import InvalidRequest

ALICE, BOB, HERE = "User:alice", "User:bob", "10.0.0.1"


def acl(name, pattern="literal", operation="read", **changes):
    whole = {"kind": "topic", "principal": ALICE, "host": "*", "permission": "allow"}
    return Acl(**{**whole, "name": name, "pattern": pattern, "operation": operation, **changes})


def access(*acls, superusers=(), default=False):
    table = AclTable()
    for one in acls:
        table.add(one)
    return AclAccess(table, superusers, allow_by_default=default)


def opens(namespace, *acls, who=ALICE, **more):
    return access(*acls, **more).allows_in(who, HERE, "read", namespace)


@pytest.mark.parametrize(
    ("namespace", "name", "named"),
    [
        ("/", "orders", "orders"),
        ("/", "a/b", "a/b"),
        ("/", "/tmp", "%2Ftmp"),
        ("/", "%2Ftmp", "%252Ftmp"),
        ("/", "*", "%2A"),
        ("/", "50%", "50%"),
        ("shop", "orders", "/shop/orders"),
        ("shop", "a/b", "/shop/a/b"),
        ("shop", "*", "/shop/%2A"),
        ("a.b", "c", "/a.b/c"),
        ("a", "b.c", "/a/b.c"),
        ("/prod", "orders", "/%2Fprod/orders"),
        ("a/b", "c", "/a%2Fb/c"),
        ("%2F", "c", "/%252F/c"),
    ],
)
def test_names_in_rules_can_be_read_back(namespace, name, named):
    assert rule_name(namespace, name) == named
    assert split(named) == (namespace, name)


@pytest.mark.parametrize(
    "named", ["/shop", "//x", "/%2Fx", "/a%b/c", "/%2fprod/x", "/%2F/x", "/shop/*", "*x", "%x"]
)
def test_nothing_has_other_names(named):
    assert split(named) is None


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("/shop", "literal"),
        ("/shop/", "literal"),
        ("/shop/*", "literal"),
        ("/shop/*", "prefixed"),
        ("//orders", "literal"),
        ("//", "prefixed"),
        ("/%2fprod/", "prefixed"),
    ],
)
def test_a_rule_about_what_nothing_is_called_is_refused(name, pattern):
    with pytest.raises(InvalidRequest):
        check_acl(acl(name, pattern))


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("/shop/orders", "literal"),
        ("/shop/", "prefixed"),
        ("/shop", "prefixed"),
        ("/", "prefixed"),
        ("/%2Fprod/x", "prefixed"),
        ("*x", "literal"),
    ],
)
def test_a_rule_about_names_or_the_beginning_of_them_is_fine(name, pattern):
    check_acl(acl(name, pattern))
    check_acl(acl("/shop", kind="group"))


def test_to_be_allowed_everything_is_not_to_be_allowed_what_is_in_other_namespaces():
    judge = access(acl("*"), acl("*", kind="group"))
    assert judge.allows(ALICE, HERE, "read", "topic", "orders")
    assert not judge.allows(ALICE, HERE, "read", "topic", "/shop/orders")
    assert not judge.allows(ALICE, HERE, "describe", "topic", "/shop/orders")
    assert judge.allows(ALICE, HERE, "read", "group", "/shop/orders")


def test_to_be_denied_everything_is_to_be_denied_what_is_in_every_namespace():
    judge = access(acl("/shop/", "prefixed"), acl("*", permission="deny"))
    assert not judge.allows(ALICE, HERE, "read", "topic", "/shop/orders")


def test_a_rule_about_everything_ends_the_default_in_every_namespace():
    judge = access(acl("*", principal=BOB), default=True)
    assert not judge.allows(ALICE, HERE, "read", "topic", "/shop/orders")
    assert not judge.allows(BOB, HERE, "read", "topic", "/shop/orders")


def test_a_prefix_of_names_stays_in_its_namespace():
    judge = access(acl("s", "prefixed"), acl("/a/b", "prefixed"))
    assert judge.allows(ALICE, HERE, "read", "topic", "shop")
    assert not judge.allows(ALICE, HERE, "read", "topic", rule_name("shop", "orders"))
    assert not judge.allows(ALICE, HERE, "read", "topic", rule_name("a.b", "c"))
    assert judge.allows(ALICE, HERE, "read", "topic", rule_name("a", "b.c"))


def test_who_is_allowed_something_in_a_namespace_can_open_it():
    assert not opens("shop")
    assert opens("shop", acl("/shop/orders"))
    assert opens("shop", acl("/shop/ord", "prefixed"))
    assert opens("shop", acl("/shop/", "prefixed", "all"))
    assert opens("shop", acl("/", "prefixed"))
    assert opens("/", acl("orders"))
    assert opens("/", acl("*"))
    assert opens("shop", superusers=["alice"])
    assert OpenAccess().allows_in(ALICE, HERE, "read", "shop")


def test_who_is_allowed_something_elsewhere_cannot():
    for rule in (
        acl("*"),
        acl("shop"),
        acl("s", "prefixed"),
        acl("/shop2/orders"),
        acl("/shop/orders", operation="describe"),
        acl("/shop/orders", principal=BOB),
        acl("/shop/orders", host="10.0.0.2"),
        acl("/shop/orders", kind="group"),
    ):
        assert not opens("shop", rule)
    assert not opens("/", acl("/", "prefixed"))
    assert not opens("/", acl("/shop/orders"))


def test_what_is_denied_opens_nothing():
    held = acl("/shop/orders")
    assert not opens("shop", held, acl("/shop/", "prefixed", permission="deny"))
    assert not opens("shop", held, acl("/shop/orders", permission="deny"))
    assert not opens("shop", held, acl("*", operation="all", principal="User:*", permission="deny"))
    assert opens("shop", acl("/shop/", "prefixed"), acl("/shop/orders", permission="deny"))


def test_where_everything_is_allowed_unless_a_rule_speaks_of_it_every_namespace_is_open_but_for_those():
    assert opens("shop", default=True)
    assert opens("shop", acl("/shop/orders", principal=BOB), default=True)
    assert not opens("shop", acl("/shop/", "prefixed", principal=BOB), default=True)
    assert not opens("shop", acl("*", principal=BOB), default=True)
