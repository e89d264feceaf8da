"""Users and ACLs: what is known about who may do what. A state machine of deltas, like everything durable."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstem.broker.access.acls import Acl, AclTable
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


AccessDelta = CredentialSet | CredentialRemoved | AclAdded | AclRemoved | DecoySecretMade


class AccessBook:
    def __init__(self) -> None:
        self.users: dict[str, dict[Mechanism, Credential]] = {}
        self.acls = AclTable()
        self.decoy_secret = b""

    def credential(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self.users.get(user, {}).get(mechanism)

    def apply(self, delta: AccessDelta) -> None:
        """Also of deltas whose effect is there already: a snapshot may be ahead of its position."""
        match delta:
            case CredentialSet(user, mechanism, salt, iterations, stored_key, server_key):
                credential = Credential(salt, iterations, stored_key, server_key)
                self.users.setdefault(user, {})[Mechanism(mechanism)] = credential
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

    def dump(self) -> Iterator[AccessDelta]:
        if self.decoy_secret:
            yield DecoySecretMade(self.decoy_secret)
        for user, held in list(self.users.items()):
            for mechanism, one in list(held.items()):
                yield CredentialSet(
                    user, int(mechanism), one.salt, one.iterations, one.stored_key, one.server_key
                )
        for acl in self.acls:
            yield AclAdded(acl)
