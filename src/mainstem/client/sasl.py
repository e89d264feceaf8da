"""The client's side of SASL, pure: messages to send, given those that were received.

A mechanism is a generator: it yields what to send and is sent what came back, and returns at the end. SCRAM
is RFC 5802 with SHA-256 or SHA-512; the server, too, has to prove that it knows the password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Generator

from mainstem.client.settings import Sasl
from mainstem.model.errors import AuthenticationFailed

Exchange = Generator[bytes, bytes, None]
MIN_ITERATIONS = 4096  # what the standard asks for at least: fewer would give the password away
MAX_ITERATIONS = 10_000_000  # more would only keep us busy


def exchange(sasl: Sasl, nonce: bytes) -> Exchange:
    if sasl.mechanism == "PLAIN":
        return _plain(sasl)
    return _scram(sasl, nonce)


def _plain(sasl: Sasl) -> Exchange:
    yield b"\0" + sasl.user.encode() + b"\0" + sasl.password.encode()


def _scram(sasl: Sasl, nonce: bytes) -> Exchange:
    digest = "sha256" if sasl.mechanism == "SCRAM-SHA-256" else "sha512"
    own_nonce = base64.b64encode(nonce).decode()
    user = sasl.user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={user},r={own_nonce}"
    server_first = (yield b"n,," + first.encode()).decode("utf-8", "replace")

    facts = _attributes(server_first)
    all_nonce, salt, iterations = facts.get("r", ""), facts.get("s", ""), facts.get("i", "")
    if not all_nonce.startswith(own_nonce) or all_nonce == own_nonce:
        raise AuthenticationFailed("the broker's SCRAM answer is not to our question")
    if not iterations.isdigit() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise AuthenticationFailed(f"the broker asks for {iterations!r} SCRAM iterations")
    try:
        salt_bytes = base64.b64decode(salt, validate=True)
    except ValueError:
        raise AuthenticationFailed("the broker's SCRAM salt is not base64") from None

    salted = hashlib.pbkdf2_hmac(digest, sasl.password.encode(), salt_bytes, int(iterations))
    without_proof = f"c=biws,r={all_nonce}"  # biws: the base64 of "n,,", no channel binding
    signed = ",".join((first, server_first, without_proof)).encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    signature = hmac.digest(stored_key, signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    final = f"{without_proof},p={base64.b64encode(proof).decode()}"
    server_final = (yield final.encode()).decode("utf-8", "replace")

    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    given = _attributes(server_final).get("v", "")
    if not hmac.compare_digest(given.encode(), base64.b64encode(expected)):
        raise AuthenticationFailed("the broker could not prove that it knows the password")


def _attributes(text: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}
