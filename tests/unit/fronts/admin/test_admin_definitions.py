"""Definition files: what is read of them, and that nothing is passed over without a word."""

from __future__ import annotations

import pytest

from mainstem.broker.access.hashes import PasswordHash
from mainstem.broker.queues import ExchangeSpec, Namespace
from mainstem.broker.queues.policies import Policy
from mainstem.fronts.admin import definitions
from mainstem.fronts.admin.definitions import PolicyEntry, QueueEntry
from mainstem.fronts.admin.properties import plain
from mainstem.fronts.admin.topology import check_name, glob
from mainstem.model.errors import InvalidRequest, NotForClients, UnacceptableCredential


def test_every_thing_that_is_not_supported_gets_a_line():
    found = {
        "rabbit_version": "4.1.0",
        "queues": [{"name": "q"}],
        "permissions": [{"user": "a", "vhost": "/"}],
        "topic_permissions": [{"user": "a"}, {"user": "b"}],
        "parameters": [{"name": "shovel-1", "component": "shovel"}],
        "odd": {"x": 1},
    }
    lines = list(definitions.left_out(found))
    assert [(line["what"], line["name"]) for line in lines] == [
        ("topic_permissions", "a"),
        ("topic_permissions", "b"),
        ("parameters", "shovel-1"),
        ("odd", "{'x': 1}"),
    ]
    assert all(line["outcome"] == "unsupported" and line["why"] for line in lines)


def test_a_section_that_is_no_list_is_refused():
    with pytest.raises(InvalidRequest, match="queues must be a list"):
        definitions.checked({"queues": {}})


def test_an_entry_may_have_fields_that_nobody_knows_but_none_of_the_wrong_type():
    entry = definitions.entry("queues", {"name": "q", "type": "quorum", "new": 1})
    assert isinstance(entry, QueueEntry)
    assert entry.all_arguments() == {"x-queue-type": "quorum"}
    with pytest.raises(InvalidRequest, match="name"):
        definitions.entry("queues", {"name": 5})
    with pytest.raises(InvalidRequest, match="Expected `object`"):
        definitions.entry("bindings", "x")


def test_what_of_a_user_means_nothing_is_told():
    def unknown(**fields: object) -> list[str]:
        return definitions.entry("users", {"name": "u", **fields}).unknown()

    for tags in (
        ["administrator", "x"],
        "administrator,x",
        "administrator, x",
    ):  # the last are of older files
        assert unknown(tags=tags) == ["tags mean nothing here: administrator, x"]
    assert unknown(tags="", limits={}) == unknown(tags=[]) == []
    assert unknown(limits={"max-connections": 1}) == ["limits of a user are not supported"]


def test_a_password_is_taken_in_clear_or_by_a_hash_that_can_be_checked():
    def password(**fields: str) -> object:
        return definitions.password_of(definitions.entry("users", {"name": "u", **fields}))

    sha256 = {"hashing_algorithm": "rabbit_password_hashing_sha256"}
    documented = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    assert password(password="x", password_hash="bad") == "x"
    assert isinstance(password(password_hash=documented, **sha256), PasswordHash)
    for wrong, why in (
        ({}, "no password"),
        ({"password_hash": "", **sha256}, "no password"),
        ({"password_hash": documented}, "MD5"),
        ({"name": "guest", "password": "guest"}, "everybody knows"),
    ):
        with pytest.raises(UnacceptableCredential, match=why):
            password(**wrong)


def test_a_permission_has_all_three_expressions():
    whole = {"user": "u", "vhost": "v", "configure": "", "write": ".*", "read": "^a$"}
    assert definitions.entry("permissions", whole).read == "^a$"
    assert definitions.name_of("permissions", whole) == "u in v"
    with pytest.raises(InvalidRequest, match="read"):
        definitions.entry("permissions", {key: whole[key] for key in ("user", "configure", "write")})


def test_keys_of_policies_are_told_apart():
    policy = definitions.entry(
        "policies",
        {"name": "p", "pattern": "", "definition": {"max-length": 1, "ha-mode": "all"}, "apply-to": "queues"},
    )
    assert isinstance(policy, PolicyEntry)
    assert policy.apply_to == "queues"
    assert definitions.known_keys(policy) == ({"max-length": 1}, ["ha-mode"])


def test_what_is_written_is_what_outlives_a_restart():
    namespace = Namespace("shop")
    namespace.add_exchange(ExchangeSpec("kept", "topic"))
    namespace.add_exchange(ExchangeSpec("gone", "topic", durable=False))
    namespace.router.bind("kept", ("exchange", "amq.fanout"), "a")  # type: ignore[arg-type]
    namespace.router.bind("gone", ("exchange", "amq.fanout"), "b")  # type: ignore[arg-type]
    namespace.policies.put(Policy("p", "^x", {"max-length": 1}))
    allowed = [{"user": "ann", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}]
    written = definitions.written("1", [namespace], ["ann"], allowed)
    assert [one["name"] for one in written["exchanges"]] == ["kept"]  # type: ignore[attr-defined]
    assert [one["routing_key"] for one in written["bindings"]] == ["a"]  # type: ignore[attr-defined]
    assert written["users"] == [{"name": "ann", "password_hash": "", "tags": []}]
    assert written["permissions"] == allowed
    assert definitions.not_written([namespace], 1) == [
        "1 exchange(s) that do not outlive a restart",
        "1 password(s): users are listed without them",
    ]


def test_patterns_of_names():
    assert glob("orders.*")("orders.new")
    assert not glob("orders.*")("order.new")
    assert glob("*")("anything")
    with pytest.raises(InvalidRequest, match="stars"):
        glob("*a" * 9)


@pytest.mark.parametrize("name", ["", "x" * 256, "a\0b"])
def test_names_that_cannot_be_are_refused(name: str):
    with pytest.raises(InvalidRequest, match="1 to 255 bytes"):
        check_name("queue", name)


def test_reserved_names_are_the_brokers_own():
    with pytest.raises(NotForClients, match="amq"):
        check_name("queue", "amq.mine", reserved=True)


def test_values_are_plain_for_json():
    assert plain({"a": b"x", "b": [1, (2,)], "c": None}) == {"a": "x", "b": [1, [2]], "c": None}
