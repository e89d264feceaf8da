"""Redrive: move messages from one queue to where they can be tried again, or anywhere else.

Each is published and done with at its old place in one transaction, with others of its turn: it is never in
both places or in none. Whether it may still be moved is looked at in the same turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.queues import Namespace, Queue, Route, Work
from mainstem.broker.queues.browse import SEEN_AT_ONCE, Seen, browse, find
from mainstem.broker.queues.dead_letters import keys_of, split_route
from mainstem.fronts.admin.door import AskNamespace, Call, Rows, call, explained
from mainstem.fronts.admin.letters import (
    Edit,
    check_key,
    given_body,
    letter_id,
    parse_id,
    rewritten,
)
from mainstem.fronts.admin.looking import wish_of
from mainstem.fronts.admin.properties import encode_headers
from mainstem.fronts.admin.publishing import room_for
from mainstem.model import record_loop
from mainstem.model.errors import BatchTooLarge, InvalidRequest, MainstemError, NotForClients, UnknownQueue
from mainstem.model.labels import Labels
from mainstem.wire.amqp import properties as props
from mainstem.wire.amqp.dead import deaths

# Moved in one transaction.
MESSAGES_AT_ONCE = 200
BYTES_AT_ONCE = 2 << 20
MAX_IDS = 10_000


class AskRedrive(AskNamespace, frozen=True, kw_only=True):
    """Which (all of it must hold), whereto (without a word: where they died), and what is changed."""

    queue: str
    ids: list[str] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    reason: str | None = None
    died_in: str | None = None
    key: str | None = None
    contains: str | None = None
    header: str | None = None
    to_queue: str | None = None
    to_exchange: str | None = None
    as_published: bool = False
    new_key: str | None = None
    body: str | None = None
    body_base64: str | None = None
    set_headers: dict[str, Any] = msgspec.field(default_factory=dict)
    drop_headers: list[str] = msgspec.field(default_factory=list)
    fresh: bool = False
    dry_run: bool = False


class Way(NamedTuple):
    """Where a message goes, and what it says about where it was published."""

    route: Route
    exchange: str
    key: str


class NoWay(Exception):
    """Why a message stays where it is: the outcome, and a few words."""


class RedriveCalls:
    def __init__(self, broker: Broker, max_message_bytes: int) -> None:
        self._store = broker.store
        self._queues = broker.queues
        self._max_message_bytes = max_message_bytes

    def calls(self) -> list[Call]:
        return [call("POST", "/admin/redrive", AskRedrive, self.redrive, room_for(self._max_message_bytes))]

    async def redrive(self, ask: AskRedrive) -> Rows:
        namespace = self._queues.topology.namespace(ask.namespace)
        queue = namespace.queues.get(ask.queue) or self._queues.topology.queue(namespace, ask.queue)
        if queue.spec.options.kind == "stream":
            raise InvalidRequest(f"queue {ask.queue!r} is a stream: nothing is taken out of it")
        self._check_target(namespace, queue, ask)
        edit = edit_of(ask)
        if edit.body is not None and len(edit.body) > self._max_message_bytes:
            raise BatchTooLarge(f"a body of {len(edit.body)} bytes; at most {self._max_message_bytes}")
        return Rows(self._run(namespace, queue, ask, edit))

    def _check_target(self, namespace: Namespace, queue: Queue, ask: AskRedrive) -> None:
        if (ask.to_queue is not None) + (ask.to_exchange is not None) + ask.as_published > 1:
            raise InvalidRequest("one of to_queue, to_exchange and as_published, not several")
        if ask.to_queue is not None and ask.to_queue not in namespace.queues:
            raise UnknownQueue(ask.to_queue)
        if ask.to_queue == queue.name:
            raise InvalidRequest(f"they are in queue {queue.name!r} already")
        if ask.to_exchange is not None:
            spec = self._queues.topology.exchange(namespace, ask.to_exchange)
            if spec.internal:
                raise NotForClients(f"exchange {spec.name!r} is for other exchanges only")
        if ask.ids is not None and not 1 <= len(ask.ids) <= MAX_IDS:
            raise InvalidRequest(f"1 to {MAX_IDS} ids, not {len(ask.ids)}")

    async def _run(
        self, namespace: Namespace, queue: Queue, ask: AskRedrive, edit: Edit
    ) -> AsyncIterator[object]:
        turn: list[Seen] = []
        size = 0
        async for seen in self._chosen(queue, ask):
            if not isinstance(seen, Seen):
                yield seen
                continue
            turn.append(seen)
            size += seen.body_bytes
            if len(turn) >= MESSAGES_AT_ONCE or size >= BYTES_AT_ONCE:
                for outcome in await self._move(namespace, queue, turn, ask, edit):
                    yield outcome
                turn, size = [], 0
        for outcome in await self._move(namespace, queue, turn, ask, edit):
            yield outcome

    async def _chosen(self, queue: Queue, ask: AskRedrive) -> AsyncIterator[Seen | dict[str, object] | None]:
        """What was asked for by id and is not there is told as an outcome. None: still looking."""
        wish, left = wish_of(ask), ask.limit
        if ask.ids is not None:
            for text in dict.fromkeys(ask.ids):
                seen = await find(self._store, queue, *parse_id(text))
                if seen is None or not wish.fits(seen):
                    why = "no such message" if seen is None else "not as asked for"
                    yield {"id": text, "outcome": "not found", "why": why}
                else:
                    yield seen
            return
        async for seen in browse(self._store, queue):
            if not seen.is_done and wish.fits(seen):
                yield seen
                if left is not None:
                    left -= 1
                    if not left:
                        return
            elif seen.offset % SEEN_AT_ONCE == 0:
                yield None

    async def _move(
        self, namespace: Namespace, queue: Queue, turn: list[Seen], ask: AskRedrive, edit: Edit
    ) -> list[dict[str, object]]:
        """Nothing else happens between the look at them and the transaction; only the disk is waited for."""
        work = self._queues.transaction()
        outcomes: list[dict[str, object]] = []
        moved: list[dict[str, object]] = []
        for seen in turn:
            fact: dict[str, object] = {"id": letter_id(seen.lane.index, seen.offset)}
            outcomes.append(fact)
            try:
                way = self._way(namespace, queue, seen, ask, edit)
                self._gather(work, queue, seen, way, edit, ask.dry_run)
            except NoWay as no:
                fact |= {"outcome": no.args[0], "why": no.args[1]}
                continue
            except MainstemError as error:
                fact |= {"outcome": "failed", "why": explained(error)["error"]}
                continue
            fact |= {
                "outcome": "would move" if ask.dry_run else "moved",
                "to": [one.name for one in way.route.queues],
            }
            moved.append(fact)
        if moved and not ask.dry_run:
            try:
                await work.commit()
            except MainstemError as error:
                for fact in moved:
                    fact |= {"outcome": "failed", "why": str(error)}
                    fact.pop("to", None)
        return outcomes

    def _gather(self, work: Work, queue: Queue, seen: Seen, way: Way, edit: Edit, dry_run: bool) -> None:
        record = rewritten(seen, way.exchange, way.key, edit)
        if dry_run:
            return
        gathered = work.gather(way.route, record.priority)
        coded = record_loop.encode_headers(record.headers)
        record_loop.append_record(gathered.out, 0, gathered.count, record.key, record.body, coded)
        gathered.added(1)
        work.ack(queue, seen.lane.index, seen.offset, seen.offset + 1)

    def _way(self, namespace: Namespace, queue: Queue, seen: Seen, ask: AskRedrive, edit: Edit) -> Way:
        if seen.is_done:
            raise NoWay("gone", "it was consumed meanwhile")
        if not seen.is_ready:
            raise NoWay("held", "a consumer holds it")
        way = self._wanted(namespace, seen, ask, edit)
        if not way.route.queues:
            raise NoWay("unroutable", f"exchange {way.exchange!r} with key {way.key!r} leads nowhere")
        if queue in way.route.queues:
            raise NoWay("refused", f"it would come back to {queue.name!r}")
        full = self._queues.full(way.route, seen.body_bytes) if way.route.limited else ()
        if full:
            raise NoWay("refused", f"full: {', '.join(one.name for one in full)}")
        return way

    def _wanted(self, namespace: Namespace, seen: Seen, ask: AskRedrive, edit: Edit) -> Way:
        headers = seen.batch.headers(seen.at)
        died = deaths(headers.get("dead") or b"\x90")
        exchange, key = split_route(headers.get("route"))
        keys = keys_of(headers, key)
        if died and died[0].keys:
            exchange, keys = died[0].exchange, died[0].keys
        if ask.as_published and died:
            first = min(reversed(died), key=lambda one: one.first_ms)
            exchange, keys = first.exchange, first.keys or keys
        if edit.key is not None:
            keys = [edit.key]
        if ask.as_published or ask.to_exchange is not None:
            exchange = exchange if ask.to_exchange is None else ask.to_exchange
            raw = headers.get("amqp")
            labels = props.labels(raw) if raw else Labels({}, {})
            table = {name: one for name, one in labels.items() if name not in edit.drop_headers}
            changed = Labels({**table, **edit.set_headers}, labels.properties)
            found = self._queues.route(namespace, exchange, tuple(keys), changed)
            return Way(found, exchange, keys[0])
        name = ask.to_queue if ask.to_queue is not None else died[0].queue if died else None
        if name is None:
            raise NoWay("refused", "it is no dead letter: say where it is to go")
        if name not in namespace.queues:
            raise NoWay("unroutable", f"the queue {name!r} is not there any more")
        return Way(self._queues.route(namespace, "", (name,)), exchange, keys[0])


def edit_of(ask: AskRedrive) -> Edit:
    if ask.new_key is not None:
        check_key(ask.new_key)
    if ask.set_headers:
        encode_headers(ask.set_headers)
    return Edit(
        given_body(ask.body, ask.body_base64),
        ask.new_key,
        ask.set_headers,
        _names(ask.drop_headers),
        ask.fresh,
    )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
