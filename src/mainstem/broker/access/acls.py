"""Access control lists as Kafka means them.

An ACL says that a principal, from a host, is allowed or denied an operation on the resources that a pattern
names. Words are Kafka's, in lower case. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainstem.broker.access.names import check_elsewhere, is_elsewhere
from mainstem.model.errors import InvalidRequest

KINDS = ("topic", "group", "cluster", "transactional_id", "delegation_token", "user")
OPERATIONS = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
)
LITERAL, PREFIXED = "literal", "prefixed"
ALLOW, DENY = "allow", "deny"
EVERYBODY = "User:*"
ANY_HOST = "*"
ANY_NAME = "*"
CLUSTER_NAME = "kafka-cluster"
MAX_TEXT = 1024  # characters of a principal, host or pattern: a name nobody could have is a mistake

# Being allowed one of these allows what it stands for; a denial denies only itself.
IMPLIED_BY: dict[str, tuple[str, ...]] = {
    "describe": ("describe", "read", "write", "delete", "alter"),
    "describe_configs": ("describe_configs", "alter_configs"),
}


class Acl(msgspec.Struct, array_like=True, frozen=True, order=True):
    """One rule. Part of the disk format."""

    kind: str
    name: str  # a literal name, the literal "*" for all of the kind, or a prefix; see names.py
    pattern: str
    principal: str  # "User:alice", or "User:*" for everybody
    host: str  # an address, or "*"
    operation: str
    permission: str

    def speaks_of(self, principal: str, host: str) -> bool:
        return self.principal in (principal, EVERYBODY) and self.host in (host, ANY_HOST)

    def covers(self, name: str) -> bool:
        if self.pattern == PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, ANY_NAME)


def check_acl(acl: Acl) -> None:
    """Refuse a rule that could never hold, or that means something else than it seems to."""
    if acl.kind not in KINDS:
        raise InvalidRequest(f"there is no kind of resource {acl.kind!r}")
    if acl.operation not in OPERATIONS:
        raise InvalidRequest(f"there is no operation {acl.operation!r}")
    if acl.pattern not in (LITERAL, PREFIXED):
        raise InvalidRequest(f"a rule's pattern is literal or prefixed, not {acl.pattern!r}")
    if acl.permission not in (ALLOW, DENY):
        raise InvalidRequest(f"a rule allows or denies; {acl.permission!r} is neither")
    if not acl.name:
        raise InvalidRequest("the name of a rule's resource is empty")
    if acl.kind == "cluster" and acl.name != CLUSTER_NAME:
        raise InvalidRequest(f"the one resource of kind cluster is {CLUSTER_NAME!r}")
    if acl.kind == "topic" and is_elsewhere(acl.name):
        check_elsewhere(acl.name, acl.pattern == PREFIXED)
    if not acl.host:
        raise InvalidRequest("the host of a rule is empty; '*' stands for every host")
    kind, colon, who = acl.principal.partition(":")
    if not (kind and colon and who):
        raise InvalidRequest(f"{acl.principal!r} is no principal: write it as User:name")
    if max(map(len, (acl.name, acl.principal, acl.host))) > MAX_TEXT:
        raise InvalidRequest(f"a rule's texts have at most {MAX_TEXT} characters")


class AclFilter(msgspec.Struct, frozen=True):
    """None stands for any. Pattern "match" finds every rule that would speak of the name."""

    kind: str | None = None
    name: str | None = None
    pattern: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: str | None = None
    permission: str | None = None

    def finds(self, acl: Acl) -> bool:
        return (
            self.kind in (None, acl.kind)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
            and self._finds_pattern(acl)
        )

    def _finds_pattern(self, acl: Acl) -> bool:
        if self.pattern == "match":
            return self.name is None or acl.covers(self.name)
        return self.pattern in (None, acl.pattern) and self.name in (None, acl.name)


class AclTable:
    """All rules, found by the resource they speak of. `version` counts changes, for caches."""

    def __init__(self) -> None:
        self._literal: dict[tuple[str, str], dict[Acl, None]] = {}
        self._prefixed: dict[tuple[str, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[str, dict[int, int]] = {}  # by kind: how many prefixes have a length
        self.version = 0

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._shelf(acl).get((acl.kind, acl.name), ())

    def __iter__(self) -> Iterator[Acl]:
        """Of the rules there are now, however they change meanwhile."""
        for shelf in (self._literal, self._prefixed):
            for acls in list(shelf.values()):
                yield from list(acls)

    def add(self, acl: Acl) -> None:
        shelf, key = self._shelf(acl), (acl.kind, acl.name)
        if key not in shelf:
            shelf[key] = {}
            self._count_length(acl, 1)
        shelf[key][acl] = None
        self.version += 1

    def remove(self, acl: Acl) -> None:
        shelf, key = self._shelf(acl), (acl.kind, acl.name)
        if key in shelf:
            shelf[key].pop(acl, None)
            if not shelf[key]:
                del shelf[key]
                self._count_length(acl, -1)
        self.version += 1

    def speaking_of(self, kind: str, name: str) -> Iterator[Acl]:
        """Rules whose pattern covers the name, for whomever they are."""
        yield from self._literal.get((kind, name), ())
        if name != ANY_NAME:
            yield from self._literal.get((kind, ANY_NAME), ())
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                yield from self._prefixed.get((kind, name[:length]), ())

    def of_kind(self, kind: str) -> list[Acl]:
        return [acl for acl in self if acl.kind == kind]

    def _shelf(self, acl: Acl) -> dict[tuple[str, str], dict[Acl, None]]:
        return self._prefixed if acl.pattern == PREFIXED else self._literal

    def _count_length(self, acl: Acl, change: int) -> None:
        if acl.pattern == PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.kind, {})
            length = len(acl.name)
            lengths[length] = lengths.get(length, 0) + change
            if not lengths[length]:
                del lengths[length]
