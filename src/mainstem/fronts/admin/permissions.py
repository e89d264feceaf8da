"""RabbitMQ's permissions as access rules, and back: what a user may configure, write and read in a vhost.

A permission is three regular expressions. Rules only know names and beginnings of names (patterns.py), and
more than permissions do: denials, hosts, everybody. What one side cannot say is told, never widened. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import msgspec

from mainstem.broker.access.acls import ALLOW, ANY_HOST, ANY_NAME, DENY, EVERYBODY, LITERAL, PREFIXED, Acl
from mainstem.broker.access.names import DEFAULT, base_of, is_elsewhere, rule_name, split
from mainstem.fronts.admin import patterns
from mainstem.fronts.admin.patterns import ALL, Names
from mainstem.model.errors import InvalidRequest

# What a permission's fields are called in rules.
OPERATIONS = {"configure": "create", "write": "write", "read": "read"}
USER = "User:"


class PermissionEntry(msgspec.Struct):
    """As in a definitions file."""

    user: str
    configure: str
    write: str
    read: str
    vhost: str | None = None


# --- read ----------------------------------------------------------------------------------------


def rules_of(entry: PermissionEntry, vhost: str) -> tuple[list[Acl], list[str]]:
    """The rules that give the same rights, and in words each field that no rules are the same as."""
    if not entry.user or ":" in entry.user or entry.user == "*":
        raise InvalidRequest(f"no rule can be about a user with the name {entry.user!r}")
    rules: list[Acl] = []
    refused = []
    for field, operation in OPERATIONS.items():
        pattern = getattr(entry, field)
        try:
            found = sorted(patterns.parse(pattern))
        except InvalidRequest as error:
            refused.append(f"{field} {pattern[:200]!r} cannot be said by rules: {error}")
            continue
        for names in found:
            name, kind = _named(vhost, names)
            rules.append(Acl("topic", name, kind, USER + entry.user, ANY_HOST, operation, ALLOW))
    return rules, refused


def others_of(held: Iterable[Acl], rules: Collection[Acl], vhost: str) -> int:
    """How many of the rules that a user has allow something in the vhost, and are not these."""
    about = (acl for acl in held if acl.permission == ALLOW and _fields(acl) and acl not in rules)
    return sum(1 for acl in about if _places(acl, (vhost,)))


def _named(vhost: str, names: Names) -> tuple[str, str]:
    if names == ALL:
        return (ANY_NAME, LITERAL) if vhost == DEFAULT else (base_of(vhost), PREFIXED)
    return rule_name(vhost, names.text), PREFIXED if names.is_prefix else LITERAL


# --- written -------------------------------------------------------------------------------------


def written(
    acls: Iterable[Acl], vhosts: Collection[str], is_all: bool
) -> tuple[list[dict[str, str]], list[str]]:
    """Permissions in these vhosts, of which there may be more, and in words what rules say beyond them."""
    held: dict[tuple[str, str, str], set[Names]] = {}
    denials, unsaid = [], Counter[str]()
    for acl in acls:
        places = _places(acl, vhosts)
        why = _unsaid(acl, bool(places))
        if why is not None:
            unsaid[why] += bool(places or is_all)
            denials += [acl] if acl.permission == DENY and places else []
            continue
        unsaid["about all operations: only configure, write and read are written"] += acl.operation == "all"
        unsaid["by the beginning of a vhost's name: written for those there are"] += _spans(acl)
        for vhost, names in places.items():
            for field in _fields(acl):
                held.setdefault((acl.principal, vhost, field), set()).add(names)
    for (principal, vhost, field), every in held.items():
        every -= set(_denied(denials, principal, vhost, field, every))
    users = sorted({(principal, vhost) for (principal, vhost, _), every in held.items() if every})
    found = [
        {
            "user": principal.removeprefix(USER),
            "vhost": vhost,
            **{field: patterns.written(held.get((principal, vhost, field), ())) for field in OPERATIONS},
        }
        for principal, vhost in users
    ]
    return found, [f"{count} access rule(s) {why}" for why, count in sorted(unsaid.items()) if count]


def _unsaid(acl: Acl, is_there: bool) -> str | None:
    """Why a rule is no permission."""
    who = acl.principal.removeprefix(USER)
    if not _fields(acl):
        return "about what permissions do not speak of"
    if acl.permission == DENY:
        return "that deny: permissions only allow, and what these take from is left out"
    if acl.host != ANY_HOST:
        return "for some hosts only"
    if acl.principal == EVERYBODY or who == acl.principal or ":" in who:
        return "for others than a user by name"
    return None if is_there else "about names or vhosts that are not there"


def _denied(
    denials: Iterable[Acl], principal: str, vhost: str, field: str, every: Iterable[Names]
) -> Iterator[Names]:
    """What denials take from, if only a part of it: a permission must not allow more than the rules."""
    for acl in denials:
        taken = _places(acl, (vhost,)).get(vhost)
        if taken is not None and acl.principal in (principal, EVERYBODY) and field in _fields(acl):
            yield from (names for names in every if names.overlaps(taken))


def _fields(acl: Acl) -> tuple[str, ...]:
    if acl.kind != "topic":
        return ()
    return tuple(field for field, operation in OPERATIONS.items() if acl.operation in (operation, "all"))


def _places(acl: Acl, vhosts: Collection[str]) -> dict[str, Names]:
    """The names that a rule speaks of, by vhost."""
    is_prefix, denies = acl.pattern == PREFIXED, acl.permission == DENY
    found = split(acl.name)
    if not is_prefix and acl.name == ANY_NAME:
        # Only a denial reaches everywhere.
        return dict.fromkeys(vhosts if denies else _some(vhosts, DEFAULT), ALL)
    if found is not None:
        vhost, text = found
        return dict.fromkeys(_some(vhosts, vhost), Names(text, is_prefix)) if text or is_prefix else {}
    if not is_prefix:
        return {}
    if _spans(acl):
        others = (vhost for vhost in vhosts if vhost != DEFAULT)
        return {vhost: ALL for vhost in others if base_of(vhost).startswith(acl.name)}
    # A prefix that ends within an escape: nothing is said by it but, to be safe, a denial.
    return dict.fromkeys(_some(vhosts, DEFAULT) if denies and not is_elsewhere(acl.name) else (), ALL)


def _some(vhosts: Collection[str], wanted: str) -> tuple[str, ...]:
    return (wanted,) if wanted in vhosts else ()


def _spans(acl: Acl) -> bool:
    """Whether it is about all vhosts whose name begins so."""
    return acl.pattern == PREFIXED and is_elsewhere(acl.name) and "/" not in acl.name[1:]
