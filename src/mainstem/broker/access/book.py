"""Users and ACLs: what is known about who may do what. A state machine of deltas, like everything durable."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstem.broker.access.acls import Acl, AclTable
from mainstem.broker.access.hashes import Hashed
from mainstem.broker.access.scram import Credential, Mechanism


class CredentialSet(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """A user can log in by a mechanism. Neither the password nor the salted password is kept."""

    user: str
    mechanism: int
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


class CredentialRemoved(msgspec.Struct, array_like=True, tag=2, frozen=True):
    user: str
    mechanism: int


class AclAdded(msgspec.Struct, array_like=True, tag=3, frozen=True):
    acl: Acl


class AclRemoved(msgspec.Struct, array_like=True, tag=4, frozen=True):
    acl: Acl


class DecoySecretMade(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """Made once: what users that do not exist are answered with is derived from it."""

    secret: bytes


class HashedSet(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """A user can log in by PLAIN, with a password of which a hash came from elsewhere; see hashes.py."""

    user: str
    algorithm: str
    hash_salt: bytes
    salt: bytes
    iterations: int
    stored_key: bytes


class HashedRemoved(msgspec.Struct, array_like=True, tag=7, frozen=True):
    user: str


AccessDelta = (
    CredentialSet | CredentialRemoved | AclAdded | AclRemoved | DecoySecretMade | HashedSet | HashedRemoved
)


class AccessBook:
    def __init__(self) -> None:
        self.users: dict[str, dict[Mechanism, Credential]] = {}
        self.hashed: dict[str, Hashed] = {}  # users who are not among the others
        self.acls = AclTable()
        self.decoy_secret = b""

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self.users.get(user, {}).get(mechanism)

    def knows(self, user: str) -> bool:
        return user in self.users or user in self.hashed

    def names(self) -> list[str]:
        """Of all users, sorted."""
        return sorted({*self.users, *self.hashed})

    def apply(self, delta: AccessDelta) -> None:
        """Also of deltas whose effect is there already: a snapshot may be ahead of its position."""
        match delta:
            case CredentialSet(user, mechanism, salt, iterations, stored_key, server_key):
                credential = Credential(salt, iterations, stored_key, server_key)
                self.users.setdefault(user, {})[Mechanism(mechanism)] = credential
                self.hashed.pop(user, None)
            case CredentialRemoved(user, mechanism):
                held = self.users.get(user, {})
                held.pop(Mechanism(mechanism), None)
                if not held:
                    self.users.pop(user, None)
            case AclAdded(acl):
                self.acls.add(acl)
            case AclRemoved(acl):
                self.acls.remove(acl)
            case DecoySecretMade(secret):
                self.decoy_secret = secret
            case HashedSet(user, algorithm, hash_salt, salt, iterations, stored_key):
                if user not in self.users:
                    credential = Credential(salt, iterations, stored_key, b"")
                    self.hashed[user] = Hashed(algorithm, hash_salt, credential)
            case HashedRemoved(user):
                self.hashed.pop(user, None)

    def dump(self) -> Iterator[AccessDelta]:
        if self.decoy_secret:
            yield DecoySecretMade(self.decoy_secret)
        for user, held in list(self.users.items()):
            for mechanism, one in list(held.items()):
                yield CredentialSet(
                    user, int(mechanism), one.salt, one.iterations, one.stored_key, one.server_key
                )
        for user, hashed in list(self.hashed.items()):
            one = hashed.credential
            yield HashedSet(
                user, hashed.algorithm, hashed.hash_salt, one.salt, one.iterations, one.stored_key
            )
        for acl in self.acls:
            yield AclAdded(acl)
