"""Passwords of which only RabbitMQ's hash is known:

    base64 of <salt: 4 bytes> <digest of salt and password: SHA-256 or SHA-512>

The hash itself, which is quick to guess at, is not kept. What is kept is made of its digest as if that were
the password, and as slow to guess at as others' (scram.py). To be checked a password must be told: by PLAIN.
Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from mainstem.broker.access.scram import Credential
from mainstem.model.errors import UnacceptableCredential

_SALT_BYTES = 4
_ALGORITHMS = {"rabbit_password_hashing_sha256": "sha256", "rabbit_password_hashing_sha512": "sha512"}


class PasswordHash(NamedTuple):
    algorithm: str
    salt: bytes
    digest: bytes

    @property
    def secret(self) -> str:
        """What is taken for the password."""
        return self.digest.hex()


@dataclass(frozen=True, slots=True)
class Hashed:
    """What checks the password of a user that came with a hash."""

    algorithm: str
    hash_salt: bytes
    credential: Credential

    def secret_of(self, password: str) -> str:
        return hashlib.new(self.algorithm, self.hash_salt + password.encode()).hexdigest()


def parse(text: str, algorithm: str | None) -> PasswordHash:
    """As a definitions file has it. Raises UnacceptableCredential."""
    name = _ALGORITHMS.get(algorithm or "")
    if name is None:  # older files name none, and mean MD5
        raise UnacceptableCredential("its hash is by MD5 or something unknown")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnacceptableCredential("its hash is not base64") from None
    if len(raw) != _SALT_BYTES + hashlib.new(name).digest_size:
        raise UnacceptableCredential(f"its hash has {len(raw)} bytes, which is not the size of one")
    return PasswordHash(name, raw[:_SALT_BYTES], raw[_SALT_BYTES:])
