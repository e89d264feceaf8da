"""SASL: a client proves who it is in one or two messages. PLAIN and SCRAM, over the same stored credentials.

Pure but for `Authenticator`, which keeps the slow hashing off the loop. A password that is wrong and a user
that does not exist are answered alike, after the same work.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from mainstem.broker.access import scram
from mainstem.broker.access.book import AccessBook
from mainstem.broker.access.hashes import Hashed
from mainstem.broker.access.scram import BY_LABEL, Credential, Mechanism
from mainstem.model.errors import AuthenticationFailed, IllegalSaslState, UnsupportedMechanism

PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True)
class Step:
    """What the client is sent next, and who it is once that is proven."""

    token: bytes
    user: str | None = None


class Exchange(Protocol):
    mechanism: str
    claimed: str  # who the client says it is, for the log; empty until it has

    def step(self, token: bytes) -> Step:
        """Take the client's next token. Raises AuthenticationFailed."""


class PlainExchange:
    """`[authorization id] NUL user NUL password`, in one message."""

    mechanism = PLAIN

    def __init__(self, book: AccessBook) -> None:
        self._book = book
        self.claimed = ""

    def step(self, token: bytes) -> Step:
        try:
            authorization, user, password = token.decode().split("\0")
        except (UnicodeDecodeError, ValueError):
            raise AuthenticationFailed("a PLAIN message that is not one") from None
        self.claimed = user
        if not user or not password:
            raise AuthenticationFailed("a PLAIN message without user or password")
        if authorization not in ("", user):
            raise AuthenticationFailed("logging in as somebody else is not possible")
        mechanism, held, hashed = self._held(user)
        secret = password if hashed is None else hashed.secret_of(password)
        salted = scram.salt_password(mechanism, secret, held.salt, held.iterations)
        given = scram.credential(mechanism, held.salt, held.iterations, salted)
        if not hmac.compare_digest(given.stored_key, held.stored_key):
            raise AuthenticationFailed("invalid credentials")
        return Step(b"", user)

    def _held(self, user: str) -> tuple[Mechanism, Credential, Hashed | None]:
        for mechanism in (Mechanism.SCRAM_SHA_512, Mechanism.SCRAM_SHA_256):
            held = self._book.credential(user, mechanism)
            if held is not None:
                return mechanism, held, None
        strongest, hashed = Mechanism.SCRAM_SHA_512, self._book.hashed.get(user)
        if hashed is not None:
            return strongest, hashed.credential, hashed
        return strongest, scram.decoy(strongest, self._book.decoy_secret, user), None


class ScramExchange:
    """Two messages; the second must prove what the first claimed."""

    def __init__(self, book: AccessBook, mechanism: Mechanism, server_nonce: str) -> None:
        self.mechanism = mechanism.label
        self._kind = mechanism
        self._book = book
        self._nonce = server_nonce
        self.claimed = ""
        self._asked: tuple[scram.ClientFirst, Credential, str] | None = None

    def step(self, token: bytes) -> Step:
        if self._asked is None:
            first = scram.parse_client_first(token)
            self.claimed = first.user
            held = self._book.credential(first.user, self._kind)
            if held is None:
                held = scram.decoy(self._kind, self._book.decoy_secret, first.user)
            answered = scram.server_first(first, self._nonce, held)
            self._asked = first, held, answered
            return Step(answered.encode())
        first, held, answered = self._asked
        return Step(scram.server_final(self._kind, first, answered, held, token), first.user)


class Authenticator:
    """The ways to log in that a listener offers."""

    def __init__(self, book: AccessBook, mechanisms: Sequence[str], new_nonce: Callable[[], str]) -> None:
        self.mechanisms = tuple(mechanisms)
        self._book = book
        self._new_nonce = new_nonce
        # One thread: logins queue up behind each other, never in front of the broker's work.
        self._hashing = ThreadPoolExecutor(1, "login")

    def start(self, mechanism: str) -> Exchange:
        if not self.mechanisms:
            raise IllegalSaslState("there is no logging in on this listener")
        if mechanism not in self.mechanisms:
            offered = ", ".join(self.mechanisms)
            raise UnsupportedMechanism(f"mechanism {mechanism[:40]!r}; offered are {offered}")
        if mechanism == PLAIN:
            return PlainExchange(self._book)
        return ScramExchange(self._book, BY_LABEL[mechanism], self._new_nonce())

    async def step(self, exchange: Exchange, token: bytes) -> Step:
        return await asyncio.get_running_loop().run_in_executor(self._hashing, exchange.step, token)

    def close(self) -> None:
        self._hashing.shutdown(wait=False, cancel_futures=True)
