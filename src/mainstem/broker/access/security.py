"""The door to users and ACLs: wishes are checked, journalled, and answered once they are on disk."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from mainstem.broker.access import scram
from mainstem.broker.access.acls import Acl, AclFilter, check_acl
from mainstem.broker.access.book import (
    AccessBook,
    AccessDelta,
    AclAdded,
    AclRemoved,
    CredentialRemoved,
    CredentialSet,
    DecoySecretMade,
    HashedRemoved,
    HashedSet,
)
from mainstem.broker.access.hashes import PasswordHash
from mainstem.broker.access.scram import Mechanism
from mainstem.broker.store import Section, Store
from mainstem.model.errors import MainstemError, ResourceNotFound, UnacceptableCredential
from mainstem.model.ports import Chance

MAX_USER_NAME = 255


class Security:
    def __init__(self, book: AccessBook, store: Store, chance: Chance) -> None:
        self.book = book
        self._store = store
        self._chance = chance

    # --- ACLs ----------------------------------------------------------------------------------

    async def create_acls(self, wishes: Sequence[Acl]) -> list[MainstemError | None]:
        """One result per wish. Those that make sense hold, together, once this returns."""
        results = [_problem(acl) for acl in wishes]
        good = [acl for acl, problem in zip(wishes, results, strict=True) if problem is None]
        await self._change([AclAdded(acl) for acl in dict.fromkeys(good) if acl not in self.book.acls])
        return results

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[list[Acl]]:
        """What each filter found; all of it is gone."""
        found = [self.find_acls(wanted) for wanted in filters]
        doomed = dict.fromkeys(acl for acls in found for acl in acls)
        await self._change([AclRemoved(acl) for acl in doomed])
        return found

    def find_acls(self, wanted: AclFilter) -> list[Acl]:
        return sorted(acl for acl in self.book.acls if wanted.finds(acl))

    # --- users ---------------------------------------------------------------------------------

    def plan_credential(
        self, user: str, mechanism: Mechanism, salt: bytes, iterations: int, salted_password: bytes
    ) -> CredentialSet:
        """Check a wish for a credential; what would be journalled for it."""
        if not user or len(user) > MAX_USER_NAME or not user.isprintable():
            raise UnacceptableCredential(f"a user's name has 1 to {MAX_USER_NAME} printable characters")
        if not scram.MIN_ITERATIONS <= iterations <= scram.MAX_ITERATIONS:
            raise UnacceptableCredential(
                f"{iterations} iterations; {scram.MIN_ITERATIONS} to {scram.MAX_ITERATIONS} are allowed"
            )
        if not salt or not salted_password:
            raise UnacceptableCredential("a credential without salt or salted password")
        made = scram.credential(mechanism, salt, iterations, salted_password)
        return CredentialSet(user, int(mechanism), salt, iterations, made.stored_key, made.server_key)

    def plan_removal(self, user: str, mechanism: Mechanism) -> CredentialRemoved | HashedRemoved:
        """Who can log in by no mechanism, but by a hash, goes with whichever is named."""
        if user in self.book.hashed:
            return HashedRemoved(user)
        if self.book.credential(user, mechanism) is None:
            raise ResourceNotFound(f"user {user!r} has no {mechanism.label} credential")
        return CredentialRemoved(user, int(mechanism))

    async def change_credentials(
        self, planned: Sequence[CredentialSet | CredentialRemoved | HashedRemoved]
    ) -> None:
        await self._change(planned)

    async def add_first_users(self, passwords: Mapping[str, str]) -> list[str]:
        """Make the users that are not there yet, able to log in by every mechanism; their names."""
        missing = [user for user in passwords if not self.book.knows(user)]
        planned: list[AccessDelta] = []
        for user in missing:
            for mechanism in Mechanism:
                salt = self._new_salt()
                salted = await asyncio.to_thread(
                    scram.salt_password, mechanism, passwords[user], salt, scram.DEFAULT_ITERATIONS
                )
                planned.append(self.plan_credential(user, mechanism, salt, scram.DEFAULT_ITERATIONS, salted))
        await self._change(planned)
        return missing

    async def add_hashed_user(self, user: str, found: PasswordHash) -> None:
        """Make a user that is not there yet, able to log in by PLAIN with the password of the hash."""
        salt, iterations = self._new_salt(), scram.DEFAULT_ITERATIONS
        mechanism = Mechanism.SCRAM_SHA_512
        salted = await asyncio.to_thread(scram.salt_password, mechanism, found.secret, salt, iterations)
        made = self.plan_credential(user, mechanism, salt, iterations, salted)
        await self._change([HashedSet(user, found.algorithm, found.salt, salt, iterations, made.stored_key)])

    async def prepare_logins(self) -> None:
        """Once, before the first login: unknown users get decoys, the same ones in every run."""
        if not self.book.decoy_secret:
            await self._change([DecoySecretMade(self._new_salt() + self._new_salt())])

    def new_nonce(self) -> str:
        return self._chance.token()

    def _new_salt(self) -> bytes:
        # Hashed, so that a salt has no more structure than a decoy's.
        return hashlib.sha256(self._chance.token().encode()).digest()[: scram.SALT_BYTES]

    async def _change(self, deltas: Iterable[AccessDelta]) -> None:
        together = [(Section.ACCESS, delta) for delta in deltas]
        if not together:
            return
        done = self._store.commit_together(together, essential=True)
        for _, delta in together:
            self.book.apply(delta)
        await done


def _problem(acl: Acl) -> MainstemError | None:
    try:
        check_acl(acl)
    except MainstemError as error:
        return error
    return None
