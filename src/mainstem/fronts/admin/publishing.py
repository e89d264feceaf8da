"""Publish messages: answered once they are on disk, with where each of them went."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mainstem.broker.broker import Broker
from mainstem.broker.queues import ExchangeSpec, Namespace, Queues, is_delayed
from mainstem.broker.queues.dead_letters import join_route
from mainstem.fronts.admin import properties
from mainstem.fronts.admin.door import Ask, Call, Unlogged, call
from mainstem.fronts.admin.letters import check_key, given_body
from mainstem.model import record_loop
from mainstem.model.errors import BatchTooLarge, DiskFull, InvalidRequest, NotForClients
from mainstem.model.record import Headers
from mainstem.wire.amqp import properties as props

MAX_MESSAGES = 10_000
# Beyond it a message is not delayed but forgotten.
MAX_DELAY_MS = 100 * 365 * 86_400_000
# JSON, and bytes as base64, take more room than the message.
_ROOM_BYTES = 1 << 20


class AskMessage(Ask, frozen=True, kw_only=True):
    body: str | None = None
    body_base64: str | None = None
    key: str | None = None  # None: the one of all of them
    headers: dict[str, Any] = msgspec.field(default_factory=dict)
    properties: dict[str, Any] = msgspec.field(default_factory=dict)
    delay_ms: int = 0


class AskPublish(Unlogged, frozen=True, kw_only=True):
    namespace: str = "/"
    messages: list[AskMessage]
    exchange: str = ""
    key: str = ""


class PublishCalls:
    def __init__(self, broker: Broker, max_message_bytes: int) -> None:
        self._queues = broker.queues
        self._clock = broker.clock
        self._max_message_bytes = max_message_bytes

    def calls(self) -> list[Call]:
        room = room_for(self._max_message_bytes)
        return [call("POST", "/admin/publish", AskPublish, self.publish, room)]

    async def publish(self, ask: AskPublish) -> object:
        namespace = self._queues.topology.namespace(ask.namespace)
        spec = self._queues.topology.exchange(namespace, ask.exchange)
        if spec.internal:
            raise NotForClients(f"exchange {spec.name!r} is for other exchanges only")
        if not 1 <= len(ask.messages) <= MAX_MESSAGES:
            raise InvalidRequest(f"1 to {MAX_MESSAGES} messages, not {len(ask.messages)}")
        coded = [self._coded(message, ask.key) for message in ask.messages]  # all or none make sense
        outcomes = [self._place(namespace, spec, *one) for one in coded]
        await on_disk(self._queues)
        return {"exchange": spec.name, "messages": outcomes}

    def _coded(self, message: AskMessage, key: str) -> tuple[str, bytes, bytes, int]:
        """Routing key, body, properties, delay."""
        key = key if message.key is None else message.key
        check_key(key)
        body = given_body(message.body, message.body_base64)
        if body is None:
            raise InvalidRequest("a message needs a body or a body_base64")
        if len(body) > self._max_message_bytes:
            raise BatchTooLarge(f"a message of {len(body)} bytes; at most {self._max_message_bytes}")
        if not 0 <= message.delay_ms <= MAX_DELAY_MS:
            raise InvalidRequest(f"a delay of {message.delay_ms} ms; 0 to {MAX_DELAY_MS} are allowed")
        return key, body, properties.encode(message.properties, message.headers), message.delay_ms

    def _place(
        self, namespace: Namespace, spec: ExchangeSpec, key: str, body: bytes, raw: bytes, delay_ms: int
    ) -> dict[str, object]:
        wanted = props.read(raw)
        if not delay_ms and is_delayed(spec):
            delay_ms = min(wanted.delay_ms or 0, MAX_DELAY_MS)
        keys = (key, *wanted.cc, *wanted.bcc)
        raw = props.without_bcc(raw) if wanted.bcc else raw
        headers: Headers = (("route", join_route(spec.name, key)), ("amqp", raw))
        if len(keys) > 1:
            headers = (*headers, ("keys", msgspec.msgpack.encode(keys)))
        now_ms = self._clock.now_ms()
        if wanted.expiration_ms is not None:
            until_ms = now_ms + delay_ms + wanted.expiration_ms
            headers = (*headers, ("expires", until_ms.to_bytes(8, "big")))
        if delay_ms > 0:
            gathered = self._queues.gather_delayed(now_ms + delay_ms)
            headers = (*headers, ("space", namespace.name.encode()))
            outcome: dict[str, object] = {"outcome": "delayed", "due_ms": now_ms + delay_ms}
        else:
            route = self._queues.route(namespace, spec.name, keys, props.labels(raw))
            if not route.queues:
                return {"outcome": "unroutable", "queues": []}
            full = self._queues.full(route, len(body)) if route.limited else ()
            if full:
                names = ", ".join(queue.name for queue in full)
                return {"outcome": "refused", "why": f"full: {names}", "queues": []}
            gathered = self._queues.gather(route, wanted.priority or 0)
            gathered.expiring = gathered.expiring or wanted.expiration_ms is not None
            outcome = {"outcome": "published", "queues": [queue.name for queue in route.queues]}
        coded = record_loop.encode_headers(headers)
        record_loop.append_record(gathered.out, 0, gathered.count, key.encode(), body, coded)
        gathered.added(1)
        return outcome


def room_for(message_bytes: int) -> int:
    """How large a request with such a message may be."""
    return message_bytes * 3 // 2 + _ROOM_BYTES


async def on_disk(queues: Queues) -> None:
    """All that was gathered so far. DiskFull: none of it."""
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def tell(is_there: bool) -> None:
        if not done.done():
            done.set_result(is_there)

    queues.after_disk(lambda: tell(True), lambda: tell(False))
    if not await done:
        raise DiskFull(queues.blocked or "the disk is full")
