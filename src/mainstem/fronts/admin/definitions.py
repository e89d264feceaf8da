"""RabbitMQ's definition files: how they are laid out, written and read. Pure.

One JSON object with a list for each kind of thing; things name their vhost, which is a namespace here. A file
of one vhost alone has no `vhosts`, and its things name none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from mainstem.broker.access.hashes import PasswordHash, parse
from mainstem.broker.queues import ExchangeSpec, Namespace, is_given
from mainstem.broker.queues.policies import KEYS, Policy
from mainstem.fronts.admin.permissions import PermissionEntry
from mainstem.fronts.admin.properties import plain
from mainstem.model.errors import InvalidRequest, UnacceptableCredential

# Things in the order in which they need each other.
SECTIONS = ("vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings")
# What a file says about itself.
ABOUT = frozenset(
    {
        "rabbit_version",
        "rabbitmq_version",
        "rabbitmq_definition_format",
        "product_name",
        "product_version",
        "original_cluster_name",
        "original_vhost_name",
        "explanation",
        "metadata",
    }
)
_MAX_SHOWN = 200
# RabbitMQ has this user from the start, and lets it in from its own machine alone; ours have no such bounds.
GUEST = "guest"
# What has no meaning here, and why.
UNSUPPORTED = {
    "topic_permissions": "rules by routing key are not supported",
    "parameters": "shovels, federation and limits of vhosts are not supported",
    "global_parameters": "they are about a RabbitMQ cluster",
}


class VhostEntry(msgspec.Struct):
    name: str
    limits: Any = None


class UserEntry(msgspec.Struct):
    name: str
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    tags: str | list[str] = msgspec.field(default_factory=list)  # older files have them as one text
    limits: Any = None

    def unknown(self) -> list[str]:
        """What of it means nothing here, in words."""
        tags = self.tags.split(",") if isinstance(self.tags, str) else self.tags
        kept = ", ".join(tag.strip() for tag in tags if tag.strip())
        found = [f"tags mean nothing here: {kept}"] if kept else []
        return [*found, "limits of a user are not supported"] if self.limits else found


class PolicyEntry(msgspec.Struct):
    name: str
    pattern: str
    definition: dict[str, Any]
    vhost: str | None = None
    apply_to: str = msgspec.field(default="all", name="apply-to")
    priority: int = 0


class ExchangeEntry(msgspec.Struct):
    name: str
    type: str
    vhost: str | None = None
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class QueueEntry(msgspec.Struct):
    name: str
    vhost: str | None = None
    type: str | None = None
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def all_arguments(self) -> dict[str, Any]:
        """Newer files tell the kind of a queue beside its arguments too."""
        if self.type is None or "x-queue-type" in self.arguments:
            return self.arguments
        return {**self.arguments, "x-queue-type": self.type}


class BindingEntry(msgspec.Struct):
    source: str
    destination: str
    destination_type: str = "queue"
    routing_key: str = ""
    vhost: str | None = None
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


ENTRIES: dict[str, type[msgspec.Struct]] = {
    "vhosts": VhostEntry,
    "users": UserEntry,
    "permissions": PermissionEntry,
    "policies": PolicyEntry,
    "exchanges": ExchangeEntry,
    "queues": QueueEntry,
    "bindings": BindingEntry,
}


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """With lists where there must be some."""
    for name in SECTIONS:
        if not isinstance(found.get(name, []), list):
            raise InvalidRequest(f"{name} must be a list")
    return found


def entry(section: str, raw: object) -> Any:
    """One thing, checked; InvalidRequest says what is wrong about it."""
    try:
        return msgspec.convert(raw, ENTRIES[section])
    except msgspec.ValidationError as error:
        raise InvalidRequest(str(error)) from None


def left_out(found: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """What a file has that cannot be taken over, one line for each thing."""
    for name, things in found.items():
        if name in SECTIONS or name in ABOUT:
            continue
        why = UNSUPPORTED.get(name, "this is not known here")
        for thing in things if isinstance(things, list) else [things]:
            yield {"what": name, "name": name_of(name, thing), "outcome": "unsupported", "why": why}


def name_of(section: str, thing: object) -> str:
    """What a line about a thing calls it."""
    if not isinstance(thing, Mapping):
        return str(thing)[:_MAX_SHOWN]
    if section == "bindings":
        parts = (thing.get("source"), thing.get("destination"), thing.get("routing_key"))
        return f"{parts[0]} -> {parts[1]} ({parts[2]})"[:_MAX_SHOWN]
    if section == "permissions":
        return f"{thing.get('user')} in {thing.get('vhost')}"[:_MAX_SHOWN]
    return str(thing.get("name") or thing.get("user") or dict(thing))[:_MAX_SHOWN]


def password_of(user: UserEntry) -> str | PasswordHash:
    """Raises UnacceptableCredential if there is none that could be used."""
    if user.name == GUEST:
        raise UnacceptableCredential("everybody knows the password of this one")
    if user.password is not None:
        return user.password
    if not user.password_hash:
        raise UnacceptableCredential("the file has no password")
    return parse(user.password_hash, user.hashing_algorithm)


def known_keys(policy: PolicyEntry) -> tuple[dict[str, Any], list[str]]:
    """The part of its definition that means something here, and the keys that do not."""
    kept = {key: value for key, value in policy.definition.items() if key in KEYS}
    return kept, [key for key in policy.definition if key not in KEYS]


# --- written -------------------------------------------------------------------------------------


def written(
    version: str, namespaces: Iterable[Namespace], users: Iterable[str], permissions: list[dict[str, str]]
) -> dict[str, object]:
    """What outlives a restart. Users come without passwords: nobody knows them."""
    spaces = list(namespaces)
    return {
        "product_name": "Mainstem",
        "product_version": version,
        "vhosts": [{"name": one.name} for one in spaces],
        "users": [{"name": name, "password_hash": "", "tags": []} for name in users],
        "permissions": permissions,
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [],
        "policies": [_policy(one.name, policy) for one in spaces for policy in one.policies.all()],
        "exchanges": [
            _exchange(one.name, spec) for one in spaces for spec in one.exchanges.values() if _is_kept(spec)
        ],
        "queues": [
            {
                "name": queue.name,
                "vhost": one.name,
                "durable": True,
                "auto_delete": queue.spec.auto_delete,
                "arguments": plain(queue.spec.arguments),
            }
            for one in spaces
            for queue in one.queues.values()
            if queue.spec.outlives_restart
        ],
        "bindings": [binding for one in spaces for binding in _bindings(one)],
    }


def not_written(namespaces: Iterable[Namespace], users: int) -> list[str]:
    """What a file cannot hold, in words; rules have more (permissions.py)."""
    spaces = list(namespaces)
    queues = sum(not queue.spec.outlives_restart for one in spaces for queue in one.queues.values())
    exchanges = sum(not spec.durable for one in spaces for spec in one.exchanges.values())
    found = [
        (queues, "queue(s) that do not outlive a restart"),
        (exchanges, "exchange(s) that do not outlive a restart"),
        (users, "password(s): users are listed without them"),
    ]
    return [f"{count} {what}" for count, what in found if count]


def _is_kept(spec: ExchangeSpec) -> bool:
    return spec.durable and not is_given(spec.name)


def _policy(vhost: str, policy: Policy) -> dict[str, object]:
    return {
        "vhost": vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": policy.priority,
    }


def _exchange(vhost: str, spec: ExchangeSpec) -> dict[str, object]:
    return {
        "name": spec.name,
        "vhost": vhost,
        "type": spec.kind,
        "durable": True,
        "auto_delete": spec.auto_delete,
        "internal": spec.internal,
        "arguments": plain(spec.arguments),
    }


def _bindings(namespace: Namespace) -> Iterator[dict[str, object]]:
    for binding in namespace.router.bindings():
        source = namespace.exchanges[binding.source]
        if binding.target.kind == "queue":
            stays = namespace.queues[binding.target.name].spec.outlives_restart
        else:
            stays = namespace.exchanges[binding.target.name].durable
        if source.durable and stays:
            yield {
                "source": binding.source,
                "vhost": namespace.name,
                "destination": binding.target.name,
                "destination_type": binding.target.kind,
                "routing_key": binding.key,
                "arguments": plain(binding.arguments or {}),
            }
