"""What clients send to log in."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from mainstem.fronts.amqp.login import is_loopback, log_in, mechanisms, parse_amqplain, parse_plain
from mainstem.model.errors import AuthenticationFailed
from mainstem.wire.amqp.errors import AmqpError


def _entry(name: bytes, value: bytes, kind: bytes = b"S") -> bytes:
    return bytes((len(name),)) + name + kind + len(value).to_bytes(4, "big") + value


def test_plain_has_user_and_password() -> None:
    assert parse_plain(b"\0guest\0secret") == ("guest", "secret")
    assert parse_plain(b"other\0j\xc3\xb6e\0") == ("jöe", "")


@pytest.mark.parametrize("response", [b"", b"guest", b"\0guest", b"\0a\0b\0c", b"\0\xff\0x"])
def test_what_is_not_plain_is_a_syntax_error(response: bytes) -> None:
    with pytest.raises(AmqpError) as caught:
        parse_plain(response)
    assert caught.value.code == 502


def test_amqplain_is_a_table_in_any_order() -> None:
    assert parse_amqplain(_entry(b"LOGIN", b"guest") + _entry(b"PASSWORD", b"secret")) == ("guest", "secret")
    assert parse_amqplain(_entry(b"PASSWORD", b"p") + _entry(b"LOGIN", b"u")) == ("u", "p")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        _entry(b"LOGIN", b"guest"),
        _entry(b"LOGIN", b"guest") + _entry(b"PASSWORD", b"p", b"I"),
        (_entry(b"LOGIN", b"guest") + _entry(b"PASSWORD", b"p"))[:-1],
        b"\xff",
        b"\x05LOGINS\xff\xff\xff\xff",
    ],
)
def test_what_is_not_amqplain_is_a_syntax_error(response: bytes) -> None:
    with pytest.raises(AmqpError) as caught:
        parse_amqplain(response)
    assert caught.value.code == 502


def test_only_who_shows_a_certificate_is_offered_external() -> None:
    assert mechanisms(None) == ("PLAIN", "AMQPLAIN")
    assert "EXTERNAL" in mechanisms(b"certificate")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1", "local"])
def test_loopback_peers_are_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "example.com", ""])
def test_others_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def _listener(*users: str, required: bool = False) -> Any:
    """One that takes no users' passwords."""
    access = SimpleNamespace(knows=lambda name: name in users)
    return SimpleNamespace(
        broker=SimpleNamespace(access=access), needs_authentication=required, authenticator=None
    )


@pytest.mark.parametrize(
    ("listener", "user", "why"),
    [
        (_listener(), "guest", "wrong password"),
        (_listener(), "alice", "authentication is off, and only 'guest' may log in"),
        (_listener("guest"), "guest", "authentication is off, and users of the broker cannot log in"),
        (_listener(required=True), "alice", "passwords are taken over TLS or from this machine only"),
    ],
)
def test_the_log_says_why_somebody_was_not_let_in(listener: Any, user: str, why: str) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        asyncio.run(log_in(listener, "127.0.0.1", None, "PLAIN", f"\0{user}\0secret".encode()))
    assert str(caught.value) == f"user {user!r}: {why}"
