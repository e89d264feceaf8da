"""`mainstem acl` and `mainstem user` against a broker that asks who is there."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from security_house import PASSWORDS, Files, client, guarded

from mainstem.broker.access import acls as broker_words
from mainstem.cli.main import cli
from mainstem.model.errors import AuthenticationFailed
from mainstem.wire.kafka import acls as wire_words


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with guarded(Files(tmp_path_factory.mktemp("cli"))) as broker:
        yield broker


@pytest.fixture
def run(broker, monkeypatch):
    monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.kafka)
    monkeypatch.setenv("MAINSTEM_USER", "admin")
    monkeypatch.setenv("MAINSTEM_PASSWORD", PASSWORDS["admin"])

    def run(*words, code=0, **env):
        result = CliRunner().invoke(cli, [str(word) for word in words], env=env)
        assert result.exit_code == code, result.output
        return result.output

    return run


def rows(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_changes_of_users_and_rules_are_in_the_log(run, tmp_path, caplog):
    caplog.set_level("INFO", "mainstem")
    (tmp_path / "password").write_text("secret-of-eve")
    assert run("user", "add", "eve", "--new-password-file", tmp_path / "password") == "user eve: made\n"
    run("acl", "add", "eve", "read", "--topic", "eves")
    run("acl", "rm", "--principal", "eve", "--yes")
    run("user", "rm", "eve", "--yes")
    lines = [str(record.msg) for record in caplog.records]
    for sentence in (
        "user's credential set",
        "access rule made",
        "access rule removed",
        "user's credential removed",
    ):
        (line, *_) = [line for line in lines if line.startswith(sentence)]
        assert "User:admin" in line
        assert "eve" in line
    assert "secret-of-eve" not in "".join(lines)


def test_rules_are_added_listed_checked_and_removed(run):
    run("acl", "add", "alice", "read", "write", "--topic", "shop.", "--prefix")
    run("acl", "add", "*", "describe-configs", "--topic", "*")
    run("acl", "add", "alice", "write", "--topic", "shop.secret", "--deny", "--host", "127.0.0.1")
    run("acl", "add", "alice", "read", "--group", "billing")
    speaking = rows(run("acl", "ls", "--topic", "shop.secret", "--principal", "alice", "--json"))
    assert {(rule["permission"], rule["operation"], rule["pattern"]) for rule in speaking} == {
        ("allow", "read", "prefixed"),
        ("allow", "write", "prefixed"),
        ("deny", "write", "literal"),
    }
    assert "billing" in run("acl", "ls")
    run("acl", "check", "alice", "write", "--topic", "shop.orders")
    run("acl", "check", "alice", "describe", "--topic", "shop.orders")
    assert "may not write" in run("acl", "check", "alice", "write", "--topic", "shop.secret", code=1)
    run("acl", "check", "bob", "read", "--topic", "shop.orders", code=1)
    assert "add --yes" in run("acl", "rm", "--principal", "alice", code=2)
    removed = rows(run("acl", "rm", "--principal", "alice", "--topic", "shop.", "--yes", "--json"))
    assert {rule["name"] for rule in removed} == {"shop."}
    run("acl", "check", "alice", "write", "--topic", "shop.orders", code=1)
    run("acl", "rm", "--principal", "alice", "--yes")
    assert {rule["principal"] for rule in rows(run("acl", "ls", "--json"))} == {"User:*"}


def test_a_rule_must_say_what_it_is_about(run):
    assert "--topic" in run("acl", "add", "alice", "read", code=2)
    assert "name one of" in run("acl", "add", "alice", "read", "--topic", "x", "--cluster", code=2)
    assert "--principal" in run("acl", "rm", code=2)


def test_users_are_made_changed_and_removed(run, broker, tmp_path):
    (tmp_path / "first").write_text("first password\n")
    run("user", "add", "carol", "--new-password-file", tmp_path / "first")
    assert {"user": "carol", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]} in rows(
        run("user", "ls", "--json")
    )
    ways = "SCRAM-SHA-256, SCRAM-SHA-512, PLAIN (over TLS or loopback)"
    assert ["carol", ways] in [line.split(maxsplit=1) for line in run("user", "ls").splitlines()]
    client(broker, "carol", password="first password", mechanism="SCRAM-SHA-512").cluster()
    assert "already" in run("user", "add", "carol", code=1, MAINSTEM_NEW_PASSWORD="x")
    run("user", "passwd", "carol", MAINSTEM_NEW_PASSWORD="second password")
    client(broker, "carol", password="second password", mechanism="PLAIN").cluster()
    with pytest.raises(AuthenticationFailed):
        client(broker, "carol", password="first password").cluster()
    assert "Did you mean carol?" in run("user", "rm", "caro", "--yes", code=2)
    assert "add --yes" in run("user", "rm", "carol", code=2)
    run("user", "rm", "carol", "--yes")
    assert "carol" not in run("user", "ls")


def test_a_password_is_never_taken_from_the_command_line_and_never_empty(run):
    assert "--new-password-file" in run("user", "add", "dan", code=2)
    assert "empty" in run("user", "add", "dan", code=2, MAINSTEM_NEW_PASSWORD="")


def test_broker_and_wire_agree_on_the_words():
    assert tuple(wire_words.KINDS) == broker_words.KINDS
    assert tuple(wire_words.OPERATIONS) == broker_words.OPERATIONS
