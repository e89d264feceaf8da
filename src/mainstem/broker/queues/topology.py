"""Make and remove exchanges, queues and bindings: checked, journalled, then there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from mainstem.broker.queues.book import QueueBook
from mainstem.broker.queues.deltas import (
    Bound,
    ExchangeGone,
    ExchangeMade,
    NamespaceAdded,
    NamespaceGone,
    PolicyGone,
    PolicySet,
    QueueGone,
    QueueMade,
    TopologyDelta,
    Unbound,
)
from mainstem.broker.queues.namespace import Namespace, is_given
from mainstem.broker.queues.policies import MAX_POLICIES, Policy
from mainstem.broker.queues.queue import Queue
from mainstem.broker.queues.spec import ExchangeSpec, QueueSpec, Target
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.routing.binding import Binding
from mainstem.model.errors import (
    ExchangeInUse,
    Inequivalent,
    InvalidRequest,
    NotForClients,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    UnknownExchange,
    UnknownNamespace,
    UnknownQueue,
)
from mainstem.model.ports import Clock

# Lanes of one queue: as many as AMQP has priorities.
MAX_PRIORITY = 255


class Topology:
    def __init__(self, store: Store, book: QueueBook, topics: Topics, clock: Clock) -> None:
        self._store = store
        self.book = book
        self._topics = topics
        self._clock = clock
        self._owned: dict[object, list[Queue]] = {}  # exclusive ones, by their connection
        self.on_made: Callable[[Queue], None] = lambda queue: None

    def _commit(self, *deltas: TopologyDelta, frees_space: bool = False) -> asyncio.Future[None]:
        """Journalled before applied: what a restart does not know must not be there."""
        done = self._store.commit_together(
            [(Section.QUEUES, delta) for delta in deltas], frees_space=frees_space
        )
        for delta in deltas:
            self.book.apply(delta)
        return done

    # --- namespaces ------------------------------------------------------------------------------

    def namespace(self, name: str) -> Namespace:
        found = self.book.namespaces.get(name)
        if found is None or name.startswith("\0"):  # those are the broker's own
            raise UnknownNamespace(f"there is no namespace {name!r}")
        return found

    async def add_namespace(self, name: str) -> Namespace:
        if name not in self.book.namespaces:
            await self._commit(NamespaceAdded(name))
        return self.book.namespaces[name]

    async def drop_namespace(self, name: str) -> None:
        namespace = self.namespace(name)
        queues = list(namespace.queues.values())
        done = self._commit(NamespaceGone(name), frees_space=True)
        for queue in queues:
            queue.close("its namespace was deleted")
        await done

    # --- exchanges -------------------------------------------------------------------------------

    def exchange(self, namespace: Namespace, name: str) -> ExchangeSpec:
        found = namespace.exchanges.get(name)
        if found is None:
            raise UnknownExchange(name)
        return found

    async def declare_exchange(self, namespace: Namespace, spec: ExchangeSpec) -> ExchangeSpec:
        known = namespace.exchanges.get(spec.name)
        if known is not None:
            _compare(
                f"exchange {spec.name!r}",
                [
                    ("type", spec.kind, known.kind),
                    ("durable", spec.durable, known.durable),
                    ("auto_delete", spec.auto_delete, known.auto_delete),
                    ("internal", spec.internal, known.internal),
                    ("alternate-exchange", spec.alternate, known.alternate),
                ],
            )
            return known
        namespace.router.check_exchange(spec.name, spec.kind, spec.arguments)
        await self._commit(ExchangeMade(namespace.name, spec))
        return spec

    async def delete_exchange(self, namespace: Namespace, name: str, if_unused: bool = False) -> None:
        """Of one that is not there: nothing to do."""
        if is_given(name):
            raise NotForClients(f"exchange {name!r} is the broker's own")
        if name not in namespace.exchanges:
            return
        if if_unused and namespace.router.has_bindings(name):
            raise ExchangeInUse(f"exchange {name!r} has bindings")
        into = namespace.router.bindings_to(name)
        done = self._commit(ExchangeGone(namespace.name, name))
        await self._drop_idle_sources(namespace, into)
        await done

    # --- queues ----------------------------------------------------------------------------------

    def queue(self, namespace: Namespace, name: str, owner: object = None) -> Queue:
        """One that this owner may use."""
        found = namespace.queues.get(name)
        if found is None:
            raise UnknownQueue(name)
        if found.spec.exclusive and found.owner is not owner:
            raise QueueLocked(name)
        return found

    async def declare_queue(self, namespace: Namespace, spec: QueueSpec, owner: object = None) -> Queue:
        if spec.name in namespace.queues:
            queue = self.queue(namespace, spec.name, owner)
            known = queue.spec
            if spec.exclusive and not known.exclusive:
                raise QueueLocked(spec.name)
            _compare(
                f"queue {spec.name!r}",
                [
                    ("durable", spec.durable, known.durable),
                    ("auto_delete", spec.auto_delete, known.auto_delete),
                    ("exclusive", spec.exclusive, known.exclusive),
                    *_arguments(spec.arguments, known.arguments),
                ],
            )
            self.on_made(queue)
            return queue
        levels = spec.options.max_priority + 1
        if not 1 <= levels <= MAX_PRIORITY + 1:
            raise InvalidRequest(f"max priority {levels - 1}; 0 to {MAX_PRIORITY} are allowed")
        ids = self._topics.new_partition_ids(levels)
        done = self._commit(QueueMade(namespace.name, spec, ids, self._clock.now_ms()))
        queue = namespace.queues[spec.name]
        if spec.exclusive:
            queue.owner = owner
            self._owned.setdefault(owner, []).append(queue)
        self.on_made(queue)
        await done
        return queue

    async def delete_queue(
        self, queue: Queue, if_unused: bool = False, if_empty: bool = False, why: str = "it was deleted"
    ) -> int:
        """How many messages went with it."""
        if if_unused and queue.consumers:
            raise QueueInUse(f"queue {queue.name!r} has consumers")
        if if_empty and queue.ready:
            raise QueueNotEmpty(f"queue {queue.name!r} has messages")
        namespace = self.book.namespaces.get(queue.namespace)
        if namespace is None or namespace.queues.get(queue.name) is not queue:
            return 0
        count = queue.ready
        bindings = namespace.router.bindings_of(queue.name)
        done = self._commit(QueueGone(queue.id), frees_space=True)
        owned = self._owned.get(queue.owner)
        if owned is not None and queue in owned:
            owned.remove(queue)
        queue.close(why)
        await self._drop_idle_sources(namespace, bindings)
        await done
        return count

    async def owner_gone(self, owner: object) -> None:
        for queue in self._owned.pop(owner, []):
            await self.delete_queue(queue, why="its connection was closed")

    async def drop_transient(self) -> None:
        """After a start: what was not to outlive the broker before."""
        gone: list[TopologyDelta] = [
            QueueGone(queue.id) for queue in self.book.queues.values() if not queue.spec.outlives_restart
        ]
        for namespace in self.book.namespaces.values():
            gone += [
                ExchangeGone(namespace.name, spec.name)
                for spec in namespace.exchanges.values()
                if not spec.durable
            ]
        if gone:
            await self._commit(*gone, frees_space=True)

    # --- policies --------------------------------------------------------------------------------

    async def set_policy(self, namespace: Namespace, policy: Policy) -> None:
        """In place of one of its name, if there is one."""
        policy.check()
        if policy.name not in namespace.policies and len(namespace.policies) >= MAX_POLICIES:
            raise InvalidRequest(f"namespace {namespace.name!r} has {MAX_POLICIES} policies already")
        await self._change_policies(namespace, PolicySet(namespace.name, policy))

    async def drop_policy(self, namespace: Namespace, name: str) -> None:
        """Of one that is not there: nothing to do."""
        if name in namespace.policies:
            await self._change_policies(namespace, PolicyGone(namespace.name, name))

    async def _change_policies(self, namespace: Namespace, delta: PolicySet | PolicyGone) -> None:
        before = {queue: queue.options for queue in namespace.queues.values()}
        done = self._commit(delta)
        for queue, options in before.items():
            if queue.options != options:
                self.on_made(queue)
        await done

    # --- bindings --------------------------------------------------------------------------------

    async def bind(
        self, namespace: Namespace, source: str, target: Target, key: str, arguments: Mapping[str, Any]
    ) -> None:
        binding = namespace.router.check_binding(source, target, key, arguments)
        if namespace.router.is_bound(binding):
            return
        await self._commit(Bound(namespace.name, source, *target, key, arguments))

    async def unbind(
        self, namespace: Namespace, source: str, target: Target, key: str, arguments: Mapping[str, Any]
    ) -> None:
        if source not in namespace.exchanges:
            return
        done = self._commit(Unbound(namespace.name, source, *target, key, arguments))
        await self._drop_idle_sources(namespace, [Binding(source, target, key)])
        await done

    async def _drop_idle_sources(self, namespace: Namespace, gone: list[Binding]) -> None:
        """An exchange that deletes itself does so with the last binding from it."""
        for name in {binding.source for binding in gone}:
            spec = namespace.exchanges.get(name)
            if spec is not None and spec.auto_delete and not namespace.router.has_bindings(name):
                await self.delete_exchange(namespace, name)


def _compare(what: str, pairs: list[tuple[str, object, object]]) -> None:
    for argument, received, current in pairs:
        if received != current:
            raise Inequivalent(what, argument, received, current)


def _arguments(received: Mapping[str, Any], current: Mapping[str, Any]) -> list[tuple[str, object, object]]:
    names = sorted({*received, *current})
    return [(name, received.get(name), current.get(name)) for name in names if name.startswith("x-")]
