"""Export and import of definition files. Whatever is in a file gets an outcome: nothing is dropped unsaid."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from mainstem import __version__
from mainstem.broker.access.acls import Acl
from mainstem.broker.access.hashes import PasswordHash
from mainstem.broker.broker import Broker
from mainstem.broker.queues import Namespace, Target, is_given
from mainstem.broker.queues.policies import ApplyTo, Policy
from mainstem.fronts.admin import definitions, permissions
from mainstem.fronts.admin.definitions import (
    BindingEntry,
    ExchangeEntry,
    PolicyEntry,
    QueueEntry,
    UserEntry,
    VhostEntry,
)
from mainstem.fronts.admin.door import Ask, AskNamespace, Call, Rows, call, explained
from mainstem.fronts.admin.letters import check_key
from mainstem.fronts.admin.permissions import PermissionEntry
from mainstem.fronts.admin.properties import check_table
from mainstem.fronts.admin.topology import (
    AskExchange,
    MakeSpec,
    TopologyCalls,
    check_name,
    exchange_spec,
)
from mainstem.model.errors import (
    InvalidRequest,
    MainstemError,
    UnacceptableCredential,
    UnknownExchange,
    UnknownQueue,
)

MAX_FILE_BYTES = 64 << 20
# Begun together, so that they share their way to the disk.
AT_ONCE = 500

Outcome = dict[str, object]


class AskExport(Ask, frozen=True, kw_only=True):
    namespace: str | None = None  # None: all of them


class AskImport(AskNamespace, frozen=True, kw_only=True):
    """`namespace` is for things that name no vhost."""

    definitions: dict[str, Any]
    dry_run: bool = False


class DefinitionCalls:
    def __init__(self, broker: Broker, topology: TopologyCalls, make_spec: MakeSpec) -> None:
        self._broker = broker
        self._topology = topology
        self._make_spec = make_spec

    def calls(self) -> list[Call]:
        return [
            call("GET", "/admin/definitions", AskExport, self.export),
            call("POST", "/admin/definitions", AskImport, self.take_over, MAX_FILE_BYTES),
        ]

    async def export(self, ask: AskExport) -> object:
        spaces = self._topology.visible()
        if ask.namespace is not None:
            spaces = [self._broker.queues.topology.namespace(ask.namespace)]
        users = self._broker.access.names()
        vhosts = {one.name: None for one in spaces}
        allowed, unsaid = permissions.written(self._broker.access.acls, vhosts, ask.namespace is None)
        # RabbitMQ refuses a whole file for one permission of a user that is not there.
        known = [one for one in allowed if one["user"] in users]
        if len(known) < len(allowed):
            unsaid.append(f"{len(allowed) - len(known)} permission(s) of users that are not there (any more)")
        return {
            "definitions": definitions.written(__version__, spaces, users, known),
            "left_out": definitions.not_written(spaces, len(users)) + unsaid,
        }

    async def take_over(self, ask: AskImport) -> Rows:
        found = definitions.checked(ask.definitions)
        return Rows(Import(self._broker, self._make_spec, ask).run(found))


class Import:
    """One file. With `dry_run` everything is checked and nothing made."""

    def __init__(self, broker: Broker, make_spec: MakeSpec, ask: AskImport) -> None:
        self._broker = broker
        self._topology = broker.queues.topology
        self._make_spec = make_spec
        self._dry_run = ask.dry_run
        self._default = ask.namespace
        self._would_be: dict[str, Namespace] = {}  # stand-ins for what a dry run does not make
        self._planned: set[tuple[str, str, str]] = set()  # namespace, kind, name
        self._held: dict[str, list[Acl]] = {}  # rules there were before, by principal
        for acl in broker.access.acls:
            self._held.setdefault(acl.principal, []).append(acl)

    async def run(self, found: dict[str, Any]) -> AsyncIterator[object]:
        steps: dict[str, Callable[[Any], Awaitable[Outcome]]] = {
            "vhosts": self._vhost,
            "users": self._user,
            "permissions": self._permission,
            "policies": self._policy,
            "exchanges": self._exchange,
            "queues": self._queue,
            "bindings": self._binding,
        }
        for section in definitions.SECTIONS:
            things = found.get(section, [])
            for at in range(0, len(things), AT_ONCE):
                made = [self._one(section, thing, steps[section]) for thing in things[at : at + AT_ONCE]]
                for outcome in await asyncio.gather(*made):
                    yield outcome
        for outcome in definitions.left_out(found):
            yield outcome

    async def _one(self, section: str, raw: object, step: Callable[[Any], Awaitable[Outcome]]) -> Outcome:
        fact: Outcome = {"what": section, "name": definitions.name_of(section, raw)}
        try:
            entry = definitions.entry(section, raw)
            if hasattr(entry, "vhost"):
                entry.vhost = self._default if entry.vhost is None else entry.vhost
                fact["namespace"] = entry.vhost
            return {**fact, **await step(entry)}
        except MainstemError as error:
            return {**fact, "outcome": "failed", "why": explained(error)["error"]}

    def _made(self, is_new: bool) -> Outcome:
        if not is_new:
            return {"outcome": "exists"}
        return {"outcome": "would create" if self._dry_run else "created"}

    def _namespace(self, name: str) -> Namespace:
        return self._would_be.get(name) or self._topology.namespace(name)

    # --- one of each kind ------------------------------------------------------------------------

    async def _vhost(self, entry: VhostEntry) -> Outcome:
        check_name("namespace", entry.name)
        is_new = entry.name not in self._broker.queues.book.namespaces
        if is_new and self._dry_run:
            self._would_be[entry.name] = Namespace(entry.name)
        elif is_new:
            await self._topology.add_namespace(entry.name)
        limits = {"left_out": "limits of a vhost are not supported"} if entry.limits else {}
        return {**self._made(is_new), **limits}

    async def _user(self, entry: UserEntry) -> Outcome:
        if self._broker.access.knows(entry.name):
            return {"outcome": "exists"}
        try:
            password = definitions.password_of(entry)
        except UnacceptableCredential as error:
            return {"outcome": "unsupported", "why": f"{error}; use `mainstem user add {entry.name}`"}
        if not self._dry_run:
            await self._make_user(entry.name, password)
        return {**self._made(True), **_left_out(entry.unknown())}

    async def _make_user(self, name: str, password: str | PasswordHash) -> None:
        if isinstance(password, str):
            await self._broker.security.add_first_users({name: password})
        else:
            await self._broker.security.add_hashed_user(name, password)

    async def _permission(self, entry: PermissionEntry) -> Outcome:
        """The user need not be there: who could not be taken over is made by hand."""
        vhost = self._namespace(cast(str, entry.vhost)).name
        rules, left_out = permissions.rules_of(entry, vhost)
        if not rules:
            nothing = "nothing is allowed by it, not even to open the vhost as in RabbitMQ"
            return {"outcome": "unsupported", "why": "; ".join(left_out) or nothing}
        is_new = any(rule not in self._broker.access.acls for rule in rules)
        if is_new and not self._dry_run:
            for problem in await self._broker.security.create_acls(rules):
                if problem is not None:
                    raise problem
        others = permissions.others_of(self._held.get(rules[0].principal, ()), rules, vhost)
        if others:
            left_out.append(f"the user has {others} other rule(s) there, which stay")
        return {**self._made(is_new), **_left_out(left_out)}

    async def _policy(self, entry: PolicyEntry) -> Outcome:
        namespace = self._namespace(cast(str, entry.vhost))
        kept, unknown = definitions.known_keys(entry)
        left_out: Outcome = {"left_out": f"not known here: {', '.join(unknown)}"} if unknown else {}
        if not kept:
            return {"outcome": "unsupported", "why": f"not known here: {', '.join(unknown) or 'nothing set'}"}
        policy = Policy(entry.name, entry.pattern, kept, cast(ApplyTo, entry.apply_to), entry.priority)
        policy.check()
        is_new = policy.name not in namespace.policies
        changes = policy not in namespace.policies.all()
        if changes and not self._dry_run:
            await self._topology.set_policy(namespace, policy)
        if changes and not is_new:
            return {"outcome": "would change" if self._dry_run else "changed", **left_out}
        return {**self._made(is_new), **left_out}

    async def _exchange(self, entry: ExchangeEntry) -> Outcome:
        namespace = self._namespace(cast(str, entry.vhost))
        spec = exchange_spec(
            AskExchange(
                name=entry.name,
                kind=entry.type,
                durable=entry.durable,
                auto_delete=entry.auto_delete,
                internal=entry.internal,
                arguments=entry.arguments,
            )
        )
        is_new = entry.name not in namespace.exchanges
        if is_new:
            check_name("exchange", entry.name, reserved=True)
        elif is_given(entry.name):
            return {"outcome": "exists"}
        if is_new and self._dry_run:
            namespace.router.check_exchange(spec.name, spec.kind, spec.arguments)
            self._planned.add((namespace.name, "exchange", spec.name))
        else:
            await self._topology.declare_exchange(namespace, spec)
        return self._made(is_new)

    async def _queue(self, entry: QueueEntry) -> Outcome:
        namespace = self._namespace(cast(str, entry.vhost))
        is_new = entry.name not in namespace.queues
        if is_new:
            check_name("queue", entry.name)
        check_table(entry.all_arguments())
        spec = self._make_spec(
            namespace.name, entry.name, entry.durable, entry.auto_delete, entry.all_arguments()
        )
        if is_new and self._dry_run:
            self._planned.add((namespace.name, "queue", entry.name))
        else:
            await self._topology.declare_queue(namespace, spec)
        return self._made(is_new)

    async def _binding(self, entry: BindingEntry) -> Outcome:
        namespace = self._namespace(cast(str, entry.vhost))
        kind = entry.destination_type
        check_table(entry.arguments)
        check_key(entry.routing_key)
        if kind not in ("queue", "exchange"):
            raise InvalidRequest(f"a binding leads to a queue or an exchange, not to a {kind!r}")
        for end, name in (("exchange", entry.source), (kind, entry.destination)):
            known = namespace.queues if end == "queue" else namespace.exchanges
            if name not in known and (namespace.name, end, name) not in self._planned:
                raise UnknownQueue(name) if end == "queue" else UnknownExchange(name)
        target = Target("queue" if kind == "queue" else "exchange", entry.destination)
        if self._planned and not self._is_there(namespace, entry, target):
            return self._made(True)
        binding = namespace.router.check_binding(entry.source, target, entry.routing_key, entry.arguments)
        is_new = not namespace.router.is_bound(binding)
        if is_new and not self._dry_run:
            await self._topology.bind(namespace, entry.source, target, entry.routing_key, entry.arguments)
        return self._made(is_new)

    def _is_there(self, namespace: Namespace, entry: BindingEntry, target: Target) -> bool:
        """Both ends, and not only in a plan."""
        ends = ((namespace.name, "exchange", entry.source), (namespace.name, target.kind, target.name))
        return not any(end in self._planned for end in ends)


def _left_out(texts: list[str]) -> Outcome:
    return {"left_out": "; ".join(texts)} if texts else {}
