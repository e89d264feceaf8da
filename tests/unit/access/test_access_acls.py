from __future__ import annotations

import msgspec
import pytest

from mainstem.broker.access import AclAccess
from mainstem.broker.access.acls import Acl, AclFilter, AclTable, check_acl
from mainstem.broker.access.authorizer import MAX_REMEMBERED
from mainstem.broker.access.book import (
    AccessBook,
    AccessDelta,
    AclAdded,
    AclRemoved,
    CredentialRemoved,
    CredentialSet,
    DecoySecretMade,
)
from mainstem.model.errors import InvalidRequest

ALICE, BOB, HERE = "User:alice", "User:bob", "10.0.0.1"


def acl(operation="read", name="orders", **changes):
    whole = {"kind": "topic", "pattern": "literal", "principal": ALICE, "host": "*", "permission": "allow"}
    return Acl(**{**whole, "name": name, "operation": operation, **changes})


def access(*acls, superusers=(), default=False):
    table = AclTable()
    for one in acls:
        table.add(one)
    return AclAccess(table, superusers, allow_by_default=default)


def allowed(acls, operation="read", name="orders", *, who=ALICE, host=HERE, kind="topic", default=False):
    return access(*acls, default=default).allows(who, host, operation, kind, name)


def test_what_no_rule_speaks_of_is_the_default():
    assert not allowed([])
    assert allowed([], default=True)


def test_a_rule_about_a_resource_ends_the_default_for_it():
    others = [acl(principal=BOB)]
    assert not allowed(others, default=True)
    assert allowed(others, name="payments", default=True)


def test_a_rule_holds_for_its_principal_host_kind_name_and_operation_only():
    rules = [acl(host=HERE)]
    assert allowed(rules)
    assert not allowed(rules, who=BOB)
    assert not allowed(rules, host="10.0.0.2")
    assert not allowed(rules, kind="group")
    assert not allowed(rules, name="orders2")
    assert not allowed(rules, "write")


def test_everybody_every_host_every_name_and_every_operation_have_a_word():
    assert allowed([acl(principal="User:*", host="*", name="*", operation="all")], "delete", "x", who=BOB)


def test_a_prefix_covers_what_begins_with_it_and_itself():
    rules = [acl(name="shop.", pattern="prefixed")]
    assert allowed(rules, name="shop.orders")
    assert allowed(rules, name="shop.")
    assert not allowed(rules, name="shop")
    assert not allowed(rules, name="workshop.orders")


def test_a_literal_star_is_everything_and_a_prefixed_star_is_a_star():
    assert allowed([acl(name="*")], name="anything")
    assert not allowed([acl(name="*", pattern="prefixed")], name="anything")
    assert allowed([acl(name="*", pattern="prefixed")], name="*x")


@pytest.mark.parametrize(
    "denial", [{}, {"operation": "all"}, {"name": "ord", "pattern": "prefixed"}, {"name": "*"}]
)
def test_a_denial_wins_over_any_allowance(denial):
    rules = [acl(operation="all"), acl(name="*"), acl(**denial, permission="deny")]
    assert not allowed(rules)


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter"])
def test_using_a_thing_allows_to_describe_it_and_denying_use_does_not_hide_it(operation):
    assert allowed([acl(operation)], "describe")
    assert allowed([acl(operation, permission="deny"), acl("describe")], "describe")


def test_altering_configs_allows_to_describe_them_but_not_the_reverse():
    assert allowed([acl("alter_configs")], "describe_configs")
    assert not allowed([acl("describe_configs")], "alter_configs")
    assert not allowed([acl("create")], "describe")


def test_superusers_are_exempt_even_from_denials():
    denied = acl(operation="all", name="*", principal="User:*", permission="deny")
    for spelling in ("alice", ALICE):
        assert access(denied, superusers=[spelling]).allows(ALICE, HERE, "delete", "topic", "orders")
    assert not access(denied, superusers=["bob"]).allows(ALICE, HERE, "delete", "topic", "orders")


def test_a_change_counts_from_the_next_question_on():
    table = AclTable()
    judge = AclAccess(table, allow_by_default=False)
    ask = ("User:alice", HERE, "read", "topic", "orders")
    assert not judge.allows(*ask)
    table.add(acl())
    assert judge.allows(*ask)
    table.add(acl(name="ord", pattern="prefixed", permission="deny"))
    assert not judge.allows(*ask)
    table.remove(acl(name="ord", pattern="prefixed", permission="deny"))
    assert judge.allows(*ask)
    table.remove(acl())
    assert not judge.allows(*ask)


def test_remembered_decisions_are_bounded():
    judge = access(acl(name="*"))
    for number in range(MAX_REMEMBERED + 10):
        assert judge.allows(ALICE, HERE, "read", "topic", f"t{number}")
    assert len(judge._memory[1]) <= MAX_REMEMBERED


def test_some_resource_is_enough_for_allows_any():
    def any_write(*acls, default=False):
        return access(*acls, default=default).allows_any(ALICE, HERE, "write", "topic")

    assert any_write(acl("write"))
    assert any_write(default=True)
    assert not any_write()
    assert not any_write(acl("read"))
    assert not any_write(acl("write", principal=BOB))
    assert not any_write(acl("write"), acl("write", permission="deny"))
    assert not any_write(acl("write"), acl("all", "ord", pattern="prefixed", permission="deny"))
    assert any_write(acl("write", "ord", pattern="prefixed"), acl("write", permission="deny"))
    assert not any_write(acl("write", "*"), acl("write", "*", permission="deny"), default=True)
    assert any_write(acl("write", "*"), acl("write", "o", pattern="prefixed", permission="deny"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "unknown"},
        {"operation": "any"},
        {"pattern": "match"},
        {"permission": "any"},
        {"name": ""},
        {"kind": "cluster"},
        {"host": ""},
        {"principal": "alice"},
        {"principal": "User:"},
        {"name": "x" * 2000},
    ],
)
def test_a_rule_that_could_never_hold_is_refused(wrong):
    with pytest.raises(InvalidRequest):
        check_acl(acl(**wrong))


def test_filters_find_by_every_field_and_match_finds_what_speaks_of_a_name():
    literal, prefix, star = acl(), acl(name="ord", pattern="prefixed"), acl(name="*")
    rules = [literal, prefix, star, acl(kind="group"), acl(principal=BOB, permission="deny")]

    def found(**wanted):
        return [one for one in rules if AclFilter(**wanted).finds(one)]

    assert found() == rules
    assert found(kind="topic", pattern="match", name="orders", principal=ALICE) == [literal, prefix, star]
    assert found(kind="topic", name="orders", principal=ALICE) == [literal]
    assert found(pattern="prefixed") == [prefix]
    assert found(permission="deny") == [rules[4]]
    assert found(kind="group", operation="read", host="*") == [rules[3]]
    assert found(operation="write") == []


def test_the_book_rebuilds_itself_from_its_dump_and_bears_repeats():
    book = AccessBook()
    deltas = [
        DecoySecretMade(b"secret"),
        CredentialSet("alice", 1, b"salt", 4096, b"stored", b"server"),
        CredentialSet("alice", 2, b"salt2", 8192, b"stored2", b"server2"),
        CredentialSet("bob", 2, b"salt", 4096, b"stored", b"server"),
        CredentialRemoved("bob", 2),
        CredentialRemoved("nobody", 1),
        AclAdded(acl()),
        AclAdded(acl(name="ord", pattern="prefixed")),
        AclAdded(acl("write")),
        AclRemoved(acl("write")),
        AclRemoved(acl("delete")),
    ]
    decode = msgspec.msgpack.Decoder(AccessDelta).decode
    for delta in [*deltas, *deltas]:
        book.apply(decode(msgspec.msgpack.encode(delta)))
    again = AccessBook()
    for delta in book.dump():
        again.apply(decode(msgspec.msgpack.encode(delta)))
    assert again.users == book.users
    assert set(book.users) == {"alice"}
    assert set(again.acls) == set(book.acls) == {acl(), acl(name="ord", pattern="prefixed")}
    assert again.decoy_secret == b"secret"
