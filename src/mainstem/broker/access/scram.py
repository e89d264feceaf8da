"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677), the server's side, as Kafka uses them.

    client first   n,,n=<user>,r=<client nonce>
    server first   r=<client nonce><server nonce>,s=<salt>,i=<iterations>
    client final   c=<base64 of "n,,">,r=<both nonces>,p=<proof>
    server final   v=<signature>

Pure: the nonce is passed in. No channel binding, no SASLprep (Kafka's clients do neither).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import IntEnum

from mainstem.model.errors import AuthenticationFailed

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
DEFAULT_ITERATIONS = MIN_ITERATIONS
SALT_BYTES = 16
_STRAY_EQUALS = re.compile("=(?!2C|3D)")


class Mechanism(IntEnum):
    """Numbers as in Kafka's SCRAM APIs, and on disk."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


BY_LABEL = {mechanism.label: mechanism for mechanism in Mechanism}


@dataclass(frozen=True, slots=True)
class Credential:
    """Proves that somebody knows a password, and does not tell it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def credential(mechanism: Mechanism, salt: bytes, iterations: int, salted_password: bytes) -> Credential:
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    return Credential(
        salt,
        iterations,
        hashlib.new(mechanism.hash_name, client_key).digest(),
        _hmac(mechanism, salted_password, b"Server Key"),
    )


def salt_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Slow on purpose (milliseconds): keep it off the loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def decoy(mechanism: Mechanism, secret: bytes, user: str) -> Credential:
    """For a user that does not exist: always the same, and no password fits."""
    seed = hmac.digest(secret, f"{mechanism.label} {user}".encode(), "sha512")
    size = hashlib.new(mechanism.hash_name).digest_size
    return Credential(seed[:SALT_BYTES], DEFAULT_ITERATIONS, bytes(size), bytes(size))


@dataclass(frozen=True, slots=True)
class ClientFirst:
    user: str
    nonce: str
    gs2_header: str  # "n,," with an optional authorization id
    bare: str  # everything after it


def parse_client_first(token: bytes) -> ClientFirst:
    parts = _text(token).split(",", 2)
    if len(parts) != 3 or parts[0] not in ("n", "y"):
        raise AuthenticationFailed("a SCRAM message that is not one, or with channel binding")
    binding, authorization, bare = parts
    fields = bare.split(",")
    # Extensions are refused rather than ignored: Kafka's one says that the user is a delegation token.
    if len(fields) != 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
        raise AuthenticationFailed("a SCRAM message that is not one")
    user, nonce = _unescape(fields[0][2:]), fields[1][2:]
    if not user or not nonce:
        raise AuthenticationFailed("a SCRAM message without user or nonce")
    if authorization and _unescape(authorization.removeprefix("a=")) != user:
        raise AuthenticationFailed("logging in as somebody else is not possible")
    return ClientFirst(user, nonce, f"{binding},{authorization},", bare)


def server_first(first: ClientFirst, server_nonce: str, held: Credential) -> str:
    salt = base64.b64encode(held.salt).decode()
    return f"r={first.nonce}{server_nonce},s={salt},i={held.iterations}"


def server_final(
    mechanism: Mechanism, first: ClientFirst, answered: str, held: Credential, token: bytes
) -> bytes:
    """Check the client's proof; the token that proves to the client that it talks to the right server."""
    text = _text(token)
    without_proof, _, proof_text = text.rpartition(",p=")
    binding, _, nonce = without_proof.partition(",")
    both = answered.split(",", 1)[0].removeprefix("r=")
    # librdkafka before 2.6.1 puts its own nonce in front once more. Nothing is lost by taking that too: the
    # server's part is there, whole, and the proof covers the text as it was sent.
    right = nonce in (f"r={both}", f"r={first.nonce}{both}")
    if binding != "c=" + base64.b64encode(first.gs2_header.encode()).decode() or not right:
        raise AuthenticationFailed("a SCRAM message that does not belong to this exchange")
    try:
        proof = base64.b64decode(proof_text, validate=True)
    except ValueError:  # not ASCII, or not base64 (binascii.Error is one)
        raise AuthenticationFailed("a SCRAM proof that is not base64") from None
    message = f"{first.bare},{answered},{without_proof}".encode()
    signature = _hmac(mechanism, held.stored_key, message)
    if len(proof) != len(signature):
        raise AuthenticationFailed("a SCRAM proof of the wrong length")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    if not hmac.compare_digest(hashlib.new(mechanism.hash_name, client_key).digest(), held.stored_key):
        raise AuthenticationFailed("invalid credentials")
    return b"v=" + base64.b64encode(_hmac(mechanism, held.server_key, message))


def _hmac(mechanism: Mechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("a SCRAM message that is not UTF-8") from None


def _unescape(name: str) -> str:
    """A user name writes "," as =2C and "=" as =3D."""
    if _STRAY_EQUALS.search(name):
        raise AuthenticationFailed("a user name with a stray '='")
    return name.replace("=2C", ",").replace("=3D", "=")
