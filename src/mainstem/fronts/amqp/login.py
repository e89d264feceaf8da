"""Logging in: PLAIN, AMQPLAIN and EXTERNAL over the broker's users; guest/guest for who is on this machine.

Users and their SCRAM credentials are those of every front. Where nobody needs to log in, RabbitMQ's known
user `guest` with its well-known password is taken from loopback peers, because every client comes with it.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from mainstem.broker.access.authorizer import principal_of
from mainstem.broker.access.certificate import principal_of_certificate
from mainstem.broker.access.sasl import PLAIN, PlainExchange
from mainstem.model.errors import AuthenticationFailed
from mainstem.wire.amqp.errors import AmqpError

if TYPE_CHECKING:
    from mainstem.fronts.amqp.session import Listener

GUEST = "guest"
AMQPLAIN, EXTERNAL = "AMQPLAIN", "EXTERNAL"
_SYNTAX_ERROR, _COMMAND_INVALID = 502, 503


def mechanisms(certificate: bytes | None) -> tuple[str, ...]:
    return (PLAIN, AMQPLAIN, EXTERNAL) if certificate else (PLAIN, AMQPLAIN)


async def log_in(
    listener: Listener, host: str, certificate: bytes | None, mechanism: str, response: bytes
) -> str:
    """The principal. Raises AuthenticationFailed, whose text is for the log; AmqpError if it is no login."""
    if mechanism not in (PLAIN, AMQPLAIN, EXTERNAL):
        raise AmqpError(_COMMAND_INVALID, f"unknown authentication mechanism '{mechanism[:40]}'")
    if mechanism not in mechanisms(certificate):
        raise AmqpError(_COMMAND_INVALID, f"invalid authentication mechanism '{mechanism}'")
    if mechanism == EXTERNAL:
        assert certificate is not None
        return principal_of_certificate(certificate)
    user, password = parse_plain(response) if mechanism == PLAIN else parse_amqplain(response)
    known = listener.broker.access.knows(user)
    if not known and not listener.needs_authentication and (user, password) == (GUEST, GUEST):
        if not is_loopback(host):
            raise AuthenticationFailed(f"user '{GUEST}' can only connect via localhost")
        return principal_of(GUEST)
    if listener.authenticator is None:
        raise AuthenticationFailed(f"user {user!r}: {_why_no_password_helps(listener, user, known)}")
    try:
        step = await listener.authenticator.step(
            PlainExchange(listener.broker.access), f"\0{user}\0{password}".encode()
        )
    except AuthenticationFailed as error:
        raise AuthenticationFailed(f"user {user!r}: {error}") from None
    assert step.user is not None
    return f"User:{step.user}"  # a name with a colon is a name all the same


def _why_no_password_helps(listener: Listener, user: str, known: bool) -> str:
    if listener.needs_authentication:
        return "passwords are taken over TLS or from this machine only"
    if user != GUEST:
        return f"authentication is off, and only {GUEST!r} may log in"
    return "authentication is off, and users of the broker cannot log in" if known else "wrong password"


def parse_plain(response: bytes) -> tuple[str, str]:
    """`[authorization id] NUL user NUL password`."""
    try:
        _, user, password = response.decode().split("\0")
    except (UnicodeDecodeError, ValueError):
        raise AmqpError(_SYNTAX_ERROR, "response is not a PLAIN message") from None
    return user, password


def parse_amqplain(response: bytes) -> tuple[str, str]:
    """A table without its length: names of one length byte, `S`, values of four."""
    found: dict[bytes, bytes] = {}
    at, end = 0, len(response)
    while at < end and len(found) < 16:
        name_end = at + 1 + response[at]
        value_at = name_end + 5
        size = int.from_bytes(response[name_end + 1 : value_at], "big")
        if response[name_end : name_end + 1] != b"S" or value_at + size > end:
            break
        found[response[at + 1 : name_end]] = response[value_at : value_at + size]
        at = value_at + size
    try:
        return found[b"LOGIN"].decode(), found[b"PASSWORD"].decode()
    except (KeyError, UnicodeDecodeError):
        raise AmqpError(_SYNTAX_ERROR, "AMQPLAIN auth info {LOGIN, PASSWORD} is missing") from None


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "local"  # a socket of this machine
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
