"""Namespaces, exchanges, queues, bindings and policies: list, make, remove."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Protocol

import msgspec

from mainstem.broker.queues import ExchangeSpec, Namespace, Queue, Queues, QueueSpec, Target, is_given
from mainstem.broker.queues.policies import ApplyTo, Policy
from mainstem.fronts.admin.door import Ask, AskNamespace, Call, Rows, call
from mainstem.fronts.admin.properties import check_table, plain
from mainstem.model.errors import InvalidRequest, NotForClients, ResourceNotFound, UnknownExchange

MAX_NAME_BYTES = 255
RESERVED = "amq."
MAX_NAMESPACES = 10_000


class MakeSpec(Protocol):
    """What a protocol means by the arguments of a queue; raises if they make no sense."""

    def __call__(
        self, namespace: str, name: str, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]
    ) -> QueueSpec: ...


class AskList(AskNamespace, frozen=True, kw_only=True):
    match: str = "*"


class AskQueues(AskList, frozen=True, kw_only=True):
    name: str | None = None  # this one alone


class AskName(Ask, frozen=True, kw_only=True):
    name: str


class AskExchange(AskNamespace, frozen=True, kw_only=True):
    name: str
    kind: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class AskNoExchange(AskNamespace, frozen=True, kw_only=True):
    name: str
    if_unused: bool = False


class AskQueue(AskNamespace, frozen=True, kw_only=True):
    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class AskNoQueue(AskNamespace, frozen=True, kw_only=True):
    name: str
    if_unused: bool = False
    if_empty: bool = False


class AskPurge(AskNamespace, frozen=True, kw_only=True):
    name: str


class AskBinding(AskNamespace, frozen=True, kw_only=True):
    source: str
    target: str
    target_kind: Literal["queue", "exchange"] = "queue"
    key: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class AskPolicy(AskNamespace, frozen=True, kw_only=True):
    name: str
    pattern: str
    definition: dict[str, Any]
    apply_to: ApplyTo = "all"
    priority: int = 0


class AskNoPolicy(AskNamespace, frozen=True, kw_only=True):
    name: str


class TopologyCalls:
    def __init__(self, queues: Queues, make_spec: MakeSpec) -> None:
        self._queues = queues
        self._topology = queues.topology
        self._make_spec = make_spec

    def calls(self) -> list[Call]:
        return [
            call("GET", "/admin/namespaces", Ask, self.namespaces),
            call("POST", "/admin/namespaces", AskName, self.add_namespace),
            call("DELETE", "/admin/namespaces", AskName, self.drop_namespace),
            call("GET", "/admin/exchanges", AskList, self.exchanges),
            call("POST", "/admin/exchanges", AskExchange, self.make_exchange),
            call("DELETE", "/admin/exchanges", AskNoExchange, self.delete_exchange),
            call("GET", "/admin/queues", AskQueues, self.queues),
            call("POST", "/admin/queues", AskQueue, self.make_queue),
            call("DELETE", "/admin/queues", AskNoQueue, self.delete_queue),
            call("POST", "/admin/queues/purge", AskPurge, self.purge),
            call("GET", "/admin/bindings", AskList, self.bindings),
            call("POST", "/admin/bindings", AskBinding, self.bind),
            call("POST", "/admin/bindings/delete", AskBinding, self.unbind),
            call("GET", "/admin/policies", AskNamespace, self.policies),
            call("POST", "/admin/policies", AskPolicy, self.set_policy),
            call("DELETE", "/admin/policies", AskNoPolicy, self.drop_policy),
        ]

    # --- namespaces ------------------------------------------------------------------------------

    async def namespaces(self, _: Ask) -> Rows:
        return Rows(
            {
                "namespace": one.name,
                "queues": len(one.queues),
                "exchanges": len(one.exchanges),
                "policies": len(one.policies),
            }
            for one in self.visible()
        )

    def visible(self) -> list[Namespace]:
        return [one for name, one in self._queues.book.namespaces.items() if not name.startswith("\0")]

    async def add_namespace(self, ask: AskName) -> object:
        check_name("namespace", ask.name)
        is_new = ask.name not in self._queues.book.namespaces
        if is_new and len(self._queues.book.namespaces) >= MAX_NAMESPACES:
            raise InvalidRequest(f"there are {MAX_NAMESPACES} namespaces already")
        await self._topology.add_namespace(ask.name)
        return {"namespace": ask.name, "created": is_new}

    async def drop_namespace(self, ask: AskName) -> object:
        namespace = self._topology.namespace(ask.name)
        if ask.name == "/":
            raise NotForClients("the namespace '/' is the broker's own")
        count = sum(queue.ready for queue in namespace.queues.values())
        queues = len(namespace.queues)
        await self._topology.drop_namespace(ask.name)
        return {"namespace": ask.name, "queues": queues, "messages": count, "deleted": True}

    # --- exchanges -------------------------------------------------------------------------------

    async def exchanges(self, ask: AskList) -> Rows:
        namespace = self._topology.namespace(ask.namespace)
        matches = glob(ask.match)
        return Rows(
            exchange_row(namespace, spec)
            for spec in list(namespace.exchanges.values())
            if matches(spec.name) and spec.name in namespace.exchanges
        )

    async def make_exchange(self, ask: AskExchange) -> object:
        namespace = self._topology.namespace(ask.namespace)
        spec = exchange_spec(ask)
        is_new = ask.name not in namespace.exchanges
        if is_new:
            check_name("exchange", ask.name, reserved=True)
        spec = await self._topology.declare_exchange(namespace, spec)
        return {**exchange_row(namespace, spec), "created": is_new}

    async def delete_exchange(self, ask: AskNoExchange) -> object:
        namespace = self._topology.namespace(ask.namespace)
        self._topology.exchange(namespace, ask.name)
        await self._topology.delete_exchange(namespace, ask.name, ask.if_unused)
        return {"namespace": namespace.name, "exchange": ask.name, "deleted": True}

    # --- queues ----------------------------------------------------------------------------------

    async def queues(self, ask: AskQueues) -> Rows:
        namespace = self._topology.namespace(ask.namespace)
        if ask.name is not None:
            return Rows([self._queue_row(namespace, self.find_queue(ask.namespace, ask.name))])
        matches = glob(ask.match)
        found = (queue for queue in list(namespace.queues.values()) if matches(queue.name))
        return Rows(self._queue_row(namespace, queue) for queue in found)

    def _queue_row(self, namespace: Namespace, queue: Queue) -> dict[str, object]:
        spec = queue.spec
        policy = namespace.policies.of_queue(spec)
        return {
            "namespace": namespace.name,
            "queue": spec.name,
            "kind": spec.options.kind,
            "ready": queue.ready,
            "unacked": queue.unacked,
            "consumers": queue.consumers,
            "bytes": self._queues.known_bytes(queue),
            "durable": spec.durable,
            "auto_delete": spec.auto_delete,
            "exclusive": spec.exclusive,
            "policy": policy.name if policy is not None else None,
            "arguments": plain(spec.arguments),
        }

    async def make_queue(self, ask: AskQueue) -> object:
        namespace = self._topology.namespace(ask.namespace)
        is_new = ask.name not in namespace.queues
        if is_new:
            check_name("queue", ask.name, reserved=True)
        check_table(ask.arguments)
        spec = self._make_spec(ask.namespace, ask.name, ask.durable, ask.auto_delete, ask.arguments)
        queue = await self._topology.declare_queue(namespace, spec)
        return {**self._queue_row(namespace, queue), "created": is_new}

    async def delete_queue(self, ask: AskNoQueue) -> object:
        """One that belongs to a connection alone, too: who looks after a broker may."""
        queue = self.find_queue(ask.namespace, ask.name)
        count = await self._topology.delete_queue(queue, ask.if_unused, ask.if_empty)
        return {"namespace": ask.namespace, "queue": ask.name, "messages": count, "deleted": True}

    async def purge(self, ask: AskPurge) -> object:
        queue = self.find_queue(ask.namespace, ask.name)
        if queue.spec.options.kind == "stream":
            raise InvalidRequest(f"queue {ask.name!r} is a stream: its messages go by age and size alone")
        count = queue.purge()
        await self._queues.acks.on_disk()
        return {"namespace": ask.namespace, "queue": ask.name, "purged": count}

    def find_queue(self, namespace: str, name: str) -> Queue:
        found = self._topology.namespace(namespace)
        queue = found.queues.get(name)
        return queue if queue is not None else self._topology.queue(found, name)

    # --- bindings --------------------------------------------------------------------------------

    async def bindings(self, ask: AskList) -> Rows:
        """Those that begin or end at a name that matches."""
        namespace = self._topology.namespace(ask.namespace)
        matches = glob(ask.match)
        return Rows(
            row
            for row in binding_rows(namespace)
            if ask.match == "*" or matches(row["source"]) or matches(row["target"])
        )

    async def bind(self, ask: AskBinding) -> object:
        namespace, target = self._ends(ask)
        before = self._queues.book.version
        await self._topology.bind(namespace, ask.source, target, ask.key, ask.arguments)
        return {**_binding(ask), "created": self._queues.book.version != before}

    async def unbind(self, ask: AskBinding) -> object:
        namespace, target = self._ends(ask)
        binding = namespace.router.check_binding(ask.source, target, ask.key, ask.arguments)
        if not namespace.router.is_bound(binding):
            raise ResourceNotFound(
                f"{ask.target_kind} {ask.target!r} is not bound to {ask.source!r} by the key {ask.key!r}"
            )
        await self._topology.unbind(namespace, ask.source, target, ask.key, ask.arguments)
        return {**_binding(ask), "deleted": True}

    def _ends(self, ask: AskBinding) -> tuple[Namespace, Target]:
        namespace = self._topology.namespace(ask.namespace)
        self._topology.exchange(namespace, ask.source)
        if ask.target_kind == "queue":
            self.find_queue(ask.namespace, ask.target)
        elif ask.target not in namespace.exchanges:
            raise UnknownExchange(ask.target)
        check_table(ask.arguments)
        if len(ask.key.encode()) > MAX_NAME_BYTES:
            raise InvalidRequest(f"a key of more than {MAX_NAME_BYTES} bytes")
        return namespace, Target(ask.target_kind, ask.target)

    # --- policies --------------------------------------------------------------------------------

    async def policies(self, ask: AskNamespace) -> Rows:
        namespace = self._topology.namespace(ask.namespace)
        return Rows(policy_row(namespace.name, policy) for policy in namespace.policies.all())

    async def set_policy(self, ask: AskPolicy) -> object:
        namespace = self._topology.namespace(ask.namespace)
        policy = Policy(ask.name, ask.pattern, ask.definition, ask.apply_to, ask.priority)
        is_new = policy.name not in namespace.policies
        await self._topology.set_policy(namespace, policy)
        return {**policy_row(namespace.name, policy), "created": is_new}

    async def drop_policy(self, ask: AskNoPolicy) -> object:
        namespace = self._topology.namespace(ask.namespace)
        if ask.name not in namespace.policies:
            raise ResourceNotFound(f"there is no policy {ask.name!r}")
        await self._topology.drop_policy(namespace, ask.name)
        return {"namespace": ask.namespace, "policy": ask.name, "deleted": True}


# --- pure parts ----------------------------------------------------------------------------------


def exchange_spec(ask: AskExchange) -> ExchangeSpec:
    check_table(ask.arguments)
    alternate = ask.arguments.get("alternate-exchange")
    if alternate is not None and not isinstance(alternate, str):
        raise InvalidRequest(f"alternate-exchange must be a text, not {alternate!r}")
    return ExchangeSpec(
        ask.name, ask.kind, ask.durable, ask.auto_delete, ask.internal, alternate, ask.arguments
    )


def exchange_row(namespace: Namespace, spec: ExchangeSpec) -> dict[str, object]:
    bindings = namespace.router.bindings_from(spec.name) if spec.name else namespace.queues
    policy = namespace.policies.of_exchange(spec.name)
    return {
        "namespace": namespace.name,
        "exchange": spec.name,
        "kind": spec.kind,
        "bindings": len(bindings),
        "durable": spec.durable,
        "auto_delete": spec.auto_delete,
        "internal": spec.internal,
        "given": is_given(spec.name),
        "policy": policy.name if policy is not None else None,
        "arguments": plain(spec.arguments),
    }


def binding_rows(namespace: Namespace) -> Iterator[dict[str, Any]]:
    for binding in list(namespace.router.bindings()):
        yield {
            "namespace": namespace.name,
            "source": binding.source,
            "target_kind": binding.target.kind,
            "target": binding.target.name,
            "key": binding.key,
            "arguments": plain(binding.arguments or {}),
        }


def _binding(ask: AskBinding) -> dict[str, object]:
    return {
        "namespace": ask.namespace,
        "source": ask.source,
        "target_kind": ask.target_kind,
        "target": ask.target,
        "key": ask.key,
        "arguments": ask.arguments,
    }


def policy_row(namespace: str, policy: Policy) -> dict[str, object]:
    return {
        "namespace": namespace,
        "policy": policy.name,
        "pattern": policy.pattern,
        "apply_to": policy.apply_to,
        "priority": policy.priority,
        "definition": policy.definition,
    }


def check_name(what: str, name: str, reserved: bool = False) -> None:
    """`reserved`: names that begin with amq. are the broker's."""
    if not name or len(name.encode(errors="replace")) > MAX_NAME_BYTES or "\0" in name:
        raise InvalidRequest(f"a {what} needs a name of 1 to {MAX_NAME_BYTES} bytes")
    if reserved and name.startswith(RESERVED):
        raise NotForClients(f"{what} names that begin with {RESERVED} are the broker's own")


def glob(pattern: str) -> Callable[[str], bool]:
    """`orders.*` and the like; no pattern can make it slow on a name of bounded size."""
    if pattern == "*":
        return lambda _name: True
    if len(pattern) > MAX_NAME_BYTES or pattern.count("*") > 8:
        raise InvalidRequest("a pattern of too many characters, or more than 8 stars")
    found = re.compile(fnmatch.translate(pattern))
    return lambda name: found.match(name) is not None
