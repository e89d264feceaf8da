"""The decision: may this principal, from this host, do that to this resource?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mainstem.broker.access.acls import ALLOW, ANY_NAME, DENY, IMPLIED_BY, LITERAL, PREFIXED, Acl, AclTable
from mainstem.broker.access.names import base_of, is_elsewhere, split

ANONYMOUS = "User:ANONYMOUS"
# No rule speaks of a name with it in particular.
_MADE_UP = "\0"
# Decisions remembered; a client that asks about ever new names makes it start over, not grow.
MAX_REMEMBERED = 20_000


class Access(Protocol):
    """Operations and kinds are Kafka's words in lower case: "read", "topic"."""

    @property
    def version(self) -> int:
        """Another number once decisions may have changed, for caches."""

    def allows(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool: ...

    def allows_any(self, principal: str, host: str, operation: str, kind: str) -> bool:
        """Whether there is some resource of the kind, existing or not, for which `allows` would say yes."""

    def allows_in(self, principal: str, host: str, operation: str, namespace: str) -> bool:
        """Whether there is some name of a queue or exchange in it for which `allows` would say yes."""


class OpenAccess:
    """Everybody may do everything: authentication is off and nobody asked for more."""

    version = 0

    def allows(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        return True

    def allows_any(self, principal: str, host: str, operation: str, kind: str) -> bool:
        return True

    def allows_in(self, principal: str, host: str, operation: str, namespace: str) -> bool:
        return True


class AclAccess:
    """ACLs decide: a denial wins over any allowance; superusers are exempt; where no ACL speaks, the default.

    To be allowed `*` is to be allowed every topic and what is in the namespace `/`, not what is in others:
    they are there to keep people apart. To be denied `*` is to be denied everything.

    Called for every partition of every request, also by reader threads, so decisions are remembered. A
    change of the ACLs is noticed by its version: it counts from the next call on.
    """

    def __init__(self, acls: AclTable, superusers: Iterable[str] = (), *, allow_by_default: bool) -> None:
        self._acls = acls
        self._superusers = frozenset(map(principal_of, superusers))
        self._default = allow_by_default
        # With the version of the rules they follow from, as one value: threads see both change at once.
        self._memory: tuple[int, dict[tuple[str, str, str, str, str], bool]] = (acls.version, {})

    @property
    def version(self) -> int:
        return self._acls.version

    def allows(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        remembered = self._remembered()
        key = (principal, host, operation, kind, name)
        allowed = remembered.get(key)
        if allowed is None:
            allowed = remembered[key] = self._decide(principal, host, operation, kind, name)
        return allowed

    def _remembered(self) -> dict[tuple[str, str, str, str, str], bool]:
        """Decisions by the present rules. The dictionary is replaced, never cleared: a thread that decided by
        the old rules writes what it found into the old one."""
        version, remembered = self._memory
        if version != self._acls.version or len(remembered) >= MAX_REMEMBERED:
            remembered = {}
            self._memory = (self._acls.version, remembered)
        return remembered

    def _decide(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        if principal in self._superusers:
            return True
        # A thread may look while the loop changes a list of rules: then look again.
        while True:
            try:
                acls = list(self._acls.speaking_of(kind, name))
                break
            except RuntimeError:
                continue
        if not acls:
            return self._default
        mine = [acl for acl in acls if acl.speaks_of(principal, host)]
        if _denied(mine, operation):
            return False
        if kind == "topic" and is_elsewhere(name):
            mine = [acl for acl in mine if not _covers_everything(acl)]
        return _allowed(mine, operation)

    def allows_any(self, principal: str, host: str, operation: str, kind: str) -> bool:
        if principal in self._superusers:
            return True
        acls = self._acls.of_kind(kind)
        mine = [acl for acl in acls if acl.speaks_of(principal, host)]
        denials = [acl for acl in mine if acl.permission == DENY and acl.operation in (operation, "all")]
        if any(_covers_everything(acl) for acl in denials):
            return False
        if self._default:
            return True  # a name that no rule speaks of can always be made up
        allowances = [acl for acl in mine if _allowed([acl], operation)]
        return any(not any(_covers(denial, acl) for denial in denials) for acl in allowances)

    def allows_in(self, principal: str, host: str, operation: str, namespace: str) -> bool:
        # Every login asks, and there may be many rules.
        remembered = self._remembered()
        key = (principal, host, operation, "in a namespace", namespace)
        allowed = remembered.get(key)
        if allowed is None:
            allowed = remembered[key] = self._decide_in(principal, host, operation, namespace)
        return allowed

    def _decide_in(self, principal: str, host: str, operation: str, namespace: str) -> bool:
        if principal in self._superusers:
            return True
        base = base_of(namespace)
        # Names that rules can tell apart: those of the allowances, and one that none of them knows.
        names = {base + _MADE_UP}
        for acl in self._acls.of_kind("topic"):
            if acl.speaks_of(principal, host) and _allowed([acl], operation):
                names.add(acl.name if acl.pattern == LITERAL else acl.name + _MADE_UP)
        inside = (name for name in names if _is_in(namespace, name) and name != ANY_NAME)
        return any(self._decide(principal, host, operation, "topic", name) for name in inside)


def principal_of(name: str) -> str:
    """`admin` and `User:admin` are the same."""
    return name if ":" in name else f"User:{name}"


def _denied(acls: Iterable[Acl], operation: str) -> bool:
    return any(acl.permission == DENY and acl.operation in (operation, "all") for acl in acls)


def _allowed(acls: Iterable[Acl], operation: str) -> bool:
    enough = ("all", *IMPLIED_BY.get(operation, (operation,)))
    return any(acl.permission == ALLOW and acl.operation in enough for acl in acls)


def _is_in(namespace: str, name: str) -> bool:
    found = split(name)  # of a name that nothing can have: None
    return found is not None and found[0] == namespace


def _covers_everything(acl: Acl) -> bool:
    return acl.pattern == LITERAL and acl.name == "*"


def _covers(denial: Acl, allowance: Acl) -> bool:
    """Whether every resource that the one allows, the other denies."""
    if denial.pattern == PREFIXED:
        return not _covers_everything(allowance) and allowance.name.startswith(denial.name)
    return allowance.pattern == LITERAL and allowance.name == denial.name
