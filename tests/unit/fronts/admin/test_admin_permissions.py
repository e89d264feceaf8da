"""Permissions of RabbitMQ's become rules and rules permissions, and neither allows more than the other."""

from __future__ import annotations

import pytest

from mainstem.broker.access.acls import Acl, check_acl
from mainstem.fronts.admin.permissions import PermissionEntry, others_of, rules_of, written
from mainstem.model.errors import InvalidRequest


def entry(configure: str = "", write: str = "", read: str = "", user: str = "ann") -> PermissionEntry:
    return PermissionEntry(user, configure, write, read)


def rule(name: str, operation: str = "read", pattern: str = "literal", user: str = "ann", **more: str) -> Acl:
    whole = {"kind": "topic", "principal": f"User:{user}", "host": "*", "permission": "allow", **more}
    return Acl(name=name, operation=operation, pattern=pattern, **whole)


def test_each_field_has_its_operation() -> None:
    rules, refused = rules_of(entry("^a$", "^b.*", "^(c|d)$"), "shop")
    assert not refused
    assert rules == [
        rule("/shop/a", "create"),
        rule("/shop/b", "write", "prefixed"),
        rule("/shop/c"),
        rule("/shop/d"),
    ]
    for one in rules:
        check_acl(one)


@pytest.mark.parametrize(
    ("vhost", "name", "pattern"), [("/", "*", "literal"), ("a/b", "/a%2Fb/", "prefixed")]
)
def test_all_is_all_of_the_vhost(vhost: str, name: str, pattern: str) -> None:
    rules, _ = rules_of(entry(".*", ".*", ".*"), vhost)
    assert rules == [rule(name, operation, pattern) for operation in ("create", "write", "read")]


def test_names_that_would_read_as_something_else_are_escaped() -> None:
    rules, _ = rules_of(entry(read=r"^\*$|^/tmp.*"), "/")
    assert rules == [rule("%2A"), rule("%2Ftmp", pattern="prefixed")]


def test_what_cannot_be_said_is_told_and_the_rest_is_kept() -> None:
    rules, refused = rules_of(entry("^a$", "a.b", "^x[0-9]$"), "/")
    assert rules == [rule("a", "create")]
    assert [text.partition(":")[0] for text in refused] == [
        "write 'a.b' cannot be said by rules",
        "read '^x[0-9]$' cannot be said by rules",
    ]


@pytest.mark.parametrize("user", ["", "*", "User:admin"])
def test_a_name_that_is_not_one_users_gets_no_rules(user: str) -> None:
    with pytest.raises(InvalidRequest, match="no rule can be about"):
        rules_of(entry(read=".*", user=user), "/")


def test_other_rules_of_the_user_in_the_vhost_are_counted() -> None:
    mine = [
        rule("/shop/a"),
        rule("/shop/b"),
        rule("/", pattern="prefixed"),
        rule("*"),
        rule("/shop/a", "describe"),
    ]
    assert others_of(mine, [rule("/shop/a")], "shop") == 2


# --- written -------------------------------------------------------------------------------------


def test_rules_are_written_by_user_and_vhost() -> None:
    acls = [
        rule("*", "all"),
        rule("/shop/orders", "write"),
        rule("/shop/in.", "read", "prefixed"),
        rule("/shop/", "create", "prefixed", user="bob"),
    ]
    found, left_out = written(acls, ["/", "shop"], True)
    assert found == [
        {"user": "ann", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "ann", "vhost": "shop", "configure": "^$", "write": "^orders$", "read": r"^in\..*"},
        {"user": "bob", "vhost": "shop", "configure": ".*", "write": "^$", "read": "^$"},
    ]
    assert left_out == ["1 access rule(s) about all operations: only configure, write and read are written"]


def test_a_rule_for_vhosts_by_the_beginning_of_their_name_is_written_for_those_there_are() -> None:
    found, left_out = written([rule("/sh", pattern="prefixed")], ["/", "shop", "shed", "x"], True)
    assert [one["vhost"] for one in found] == ["shed", "shop"]
    assert {one["read"] for one in found} == {".*"}
    assert left_out == ["1 access rule(s) by the beginning of a vhost's name: written for those there are"]


@pytest.mark.parametrize(
    ("denial", "kept"),
    [
        (rule("orders", permission="deny"), "^x.*"),
        (rule("or", pattern="prefixed", permission="deny", principal="User:*"), "^x.*"),
        (rule("xy", operation="all", permission="deny"), "^orders$"),
        (rule("*", host="10.0.0.1", permission="deny"), None),
        (rule("%", pattern="prefixed", permission="deny"), None),
        (rule("orders", "write", permission="deny"), "^orders$|^x.*"),
        (rule("orders", user="bob", permission="deny"), "^orders$|^x.*"),
        (rule("/shop/orders", permission="deny"), "^orders$|^x.*"),
    ],
)
def test_what_a_denial_takes_from_is_not_written(denial: Acl, kept: str | None) -> None:
    found, left_out = written([rule("orders"), rule("x", pattern="prefixed"), denial], ["/", "shop"], True)
    assert [one["read"] for one in found] == ([kept] if kept else [])
    assert left_out == [
        "1 access rule(s) that deny: permissions only allow, and what these take from is left out"
    ]


def test_every_rule_that_is_no_permission_is_counted() -> None:
    acls = [
        rule("a", host="10.0.0.1"),
        rule("a", principal="User:*"),
        rule("a", principal="Group:x"),
        rule("a", "describe"),
        rule("g", kind="group"),
        rule("/gone/a"),
        rule("%", pattern="prefixed"),
    ]
    found, left_out = written(acls, ["/"], True)
    assert found == []
    assert left_out == [
        "2 access rule(s) about names or vhosts that are not there",
        "2 access rule(s) about what permissions do not speak of",
        "2 access rule(s) for others than a user by name",
        "1 access rule(s) for some hosts only",
    ]


def test_of_one_vhost_alone_rules_of_others_are_not_missed() -> None:
    found, left_out = written([rule("/shop/a"), rule("b"), rule("/x/c", host="::1")], ["shop"], False)
    assert [one["vhost"] for one in found] == ["shop"]
    assert left_out == []
