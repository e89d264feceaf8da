"""Look at messages without taking them: those of a queue, dead letters, and what waits for its time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.queues import Namespace, Queue
from mainstem.broker.queues.browse import SEEN_AT_ONCE, browse, find
from mainstem.fronts.admin.door import Ask, AskNamespace, Call, Rows, call
from mainstem.fronts.admin.letters import SHOWN_BYTES, Wish, parse_id, shown
from mainstem.model.errors import InvalidRequest, ResourceNotFound, UnknownExchange

MAX_ROWS = 100_000
_Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]


class AskLook(AskNamespace, frozen=True, kw_only=True):
    queue: str
    limit: _Limit = 10
    unacked: bool = False  # those that consumers hold
    dead: bool = False  # dead letters only
    max_body_bytes: Annotated[int, msgspec.Meta(ge=0)] = SHOWN_BYTES
    reason: str | None = None
    died_in: str | None = None
    key: str | None = None
    contains: str | None = None
    header: str | None = None  # NAME=VALUE


class AskOne(AskNamespace, frozen=True, kw_only=True):
    queue: str
    id: str


class AskDelays(Ask, frozen=True, kw_only=True):
    namespace: str | None = None  # None: of all of them
    limit: _Limit = 100


class AskCancel(Ask, frozen=True, kw_only=True):
    id: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


def wish_of(ask: Any) -> Wish:
    """From anything that has the fields of AskLook."""
    header = None
    if ask.header is not None:
        name, equals, value = ask.header.partition("=")
        if not equals or not name:
            raise InvalidRequest(f"header must be NAME=VALUE, not {ask.header!r}")
        header = (name, value)
    contains = None if ask.contains is None else ask.contains.encode(errors="replace")
    return Wish(ask.reason, ask.died_in, ask.key, contains, header)


class LookCalls:
    def __init__(self, broker: Broker) -> None:
        self._store = broker.store
        self._queues = broker.queues

    def calls(self) -> list[Call]:
        return [
            call("GET", "/admin/messages", AskLook, self.messages),
            call("GET", "/admin/message", AskOne, self.message),
            call("GET", "/admin/dead-letters", AskNamespace, self.dead_letter_queues),
            call("GET", "/admin/delays", AskDelays, self.delays),
            call("DELETE", "/admin/delays", AskCancel, self.cancel),
        ]

    def _queue(self, namespace: str, name: str) -> Queue:
        found = self._queues.topology.namespace(namespace)
        return found.queues.get(name) or self._queues.topology.queue(found, name)

    async def messages(self, ask: AskLook) -> Rows:
        queue, wish = self._queue(ask.namespace, ask.queue), wish_of(ask)

        async def rows() -> AsyncIterator[object]:
            left = ask.limit
            async for seen in browse(self._store, queue, ask.unacked):
                if seen.is_done or (ask.dead and not seen.batch.headers(seen.at).get("dead")):
                    continue
                if not wish.fits(seen):
                    if seen.offset % SEEN_AT_ONCE == 0:
                        yield None
                    continue
                yield shown(seen, queue, ask.max_body_bytes)
                left -= 1
                if not left:
                    return

        return Rows(rows())

    async def message(self, ask: AskOne) -> object:
        queue = self._queue(ask.namespace, ask.queue)
        seen = await find(self._store, queue, *parse_id(ask.id))
        if seen is None:
            raise ResourceNotFound(f"queue {ask.queue!r} has no message {ask.id}")
        return {**shown(seen, queue, None), "state": "ready" if seen.is_ready else "unacked"}

    # --- dead letters ----------------------------------------------------------------------------

    async def dead_letter_queues(self, ask: AskNamespace) -> Rows:
        namespace = self._queues.topology.namespace(ask.namespace)
        return Rows(dead_letter_rows(namespace))

    # --- delays ----------------------------------------------------------------------------------

    async def delays(self, ask: AskDelays) -> Rows:
        """Those that are due next."""
        if ask.namespace is not None:
            self._queues.topology.namespace(ask.namespace)
        pending = await self._queues.delays.pending(ask.limit, ask.namespace)
        return Rows(
            {
                "id": one.id,
                "due_ms": one.due_ms,
                "namespace": one.namespace,
                "exchange": one.exchange,
                "keys": one.keys,
                "bytes": one.size,
            }
            for one in pending
        )

    async def cancel(self, ask: AskCancel) -> object:
        if not await self._queues.delays.cancel(ask.id):
            raise ResourceNotFound(f"no message {ask.id} waits for its time (any more)")
        return {"id": ask.id, "cancelled": True}


def dead_letter_rows(namespace: Namespace) -> Iterator[dict[str, object]]:
    """Queues that dead letters lead to, and from where. A key that is a message's own cannot be known: then
    it is the queues that any binding of the exchange leads to."""
    sources: dict[str, list[str]] = {}
    for queue in list(namespace.queues.values()):
        options = queue.options
        if options.dead_letter_exchange is None:
            continue
        for name in _led_to(namespace, options.dead_letter_exchange, options.dead_letter_key):
            sources.setdefault(name, []).append(queue.name)
    for name, froms in sorted(sources.items()):
        target = namespace.queues[name]
        yield {
            "namespace": namespace.name,
            "queue": name,
            "ready": target.ready,
            "unacked": target.unacked,
            "consumers": target.consumers,
            "from": sorted(froms),
        }


def _led_to(namespace: Namespace, exchange: str, key: str | None) -> set[str]:
    if key is not None and not (exchange and namespace.router.depends_on_headers(exchange)):
        try:
            return set(namespace.router.route(exchange, [key]))
        except UnknownExchange:
            return set()
    found: set[str] = set()
    seen, todo = {exchange}, [exchange]
    while todo:
        source = todo.pop()
        if not source or source not in namespace.exchanges:
            continue
        for binding in namespace.router.bindings_from(source):
            if binding.target.kind == "queue":
                found.add(binding.target.name)
            elif binding.target.name not in seen:
                seen.add(binding.target.name)
                todo.append(binding.target.name)
    return found
