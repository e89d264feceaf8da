"""basic.publish: a run of messages for one place is routed once and written straight into the turn's batch.

Messages with a priority, an expiration or headers are looked at one by one. A message that must be seen to
arrive (mandatory) and reaches no queue goes back before it is confirmed; any message is confirmed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.queues import ExchangeSpec, Route, is_delayed
from mainstem.fronts.amqp.codes import NO_ROUTE, as_amqp, not_implemented, precondition, refused
from mainstem.fronts.amqp.replies import PREFIX, REPLY_TO
from mainstem.fronts.amqp.topics import publish_to_topic
from mainstem.model.errors import UnknownExchange
from mainstem.model.record import Headers
from mainstem.wire.amqp import properties as props
from mainstem.wire.amqp.deliver import encode_return
from mainstem.wire.amqp.events import Publishes
from mainstem.wire.amqp.records import encode_record, encode_records

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel

# Properties for which a message is looked at on its own, beside those that `Publishes.plain` knows.
_LOOKED_AT = props.REPLY_TO | props.USER_ID
_NO_HEADERS: Headers = ()


def publish(channel: Channel, run: Publishes) -> None:
    """Raises AmqpError; what was published before the message at fault is."""
    if run.immediate:
        raise not_implemented("immediate=true")
    connection = channel.connection
    plain = run.plain and not run.present & _LOOKED_AT
    if plain and channel.transaction is None:
        known = connection.ways.find(run.route)
        if known is not None:
            _gather(channel, run, known)
            return
    session = connection.session
    exchange = run.exchange
    spec = session.namespace.exchanges.get(exchange)
    if spec is None:
        raise as_amqp(UnknownExchange(exchange), session.resource("exchange", exchange))
    session.require("write", "exchange", exchange)
    channel.is_ahead = True
    if spec.internal:
        raise refused(f"cannot publish to internal {session.resource('exchange', exchange)}")
    if plain and (exchange or not run.key.startswith(PREFIX)):
        _publish_plain(channel, run, exchange)
    else:
        for index in range(run.count):
            _publish_one(channel, run, index, spec)


def _publish_plain(channel: Channel, run: Publishes, exchange: str) -> None:
    """All of a run at once: they have the same way to go."""
    session = channel.connection.session
    queues = session.queues
    route = queues.route(session.namespace, exchange, (run.key,), None)
    count = run.count
    if not route.queues:
        if (exchange or not publish_to_topic(channel, run, 0, count)) and run.mandatory:
            for index in range(count):
                _send_back(channel, run, index)
        _count(channel, count)
        return
    if route.limited:  # each of them may be the last that fits
        for index in range(count):
            _place(channel, run, index, route, 0)
        return
    if channel.transaction is None:
        channel.connection.ways.keep(run.route, route)
    _gather(channel, run, route)


def _gather(channel: Channel, run: Publishes, route: Route) -> None:
    transaction = channel.transaction
    if transaction is None:
        gathered = channel.connection.queues.gather(route)
    else:
        transaction.grow(run.bytes)
        gathered = transaction.gather(route)
    count = run.count
    encode_records(gathered.out, gathered.count, run, 0, count)
    gathered.added(count)
    channel.is_ahead = True
    if channel.confirming:
        channel.connection.confirms.published(channel, count)


def _publish_one(channel: Channel, run: Publishes, index: int, spec: ExchangeSpec) -> None:
    session = channel.connection.session
    raw = run.properties(index)
    wanted = props.read(raw)
    if wanted.user_id is not None and wanted.user_id != session.user:
        raise precondition(
            f"user_id property set to '{wanted.user_id}' but authenticated user was '{session.user}'"
        )
    if wanted.reply_to == REPLY_TO:
        if not channel.reply_address:
            raise precondition("fast reply consumer does not exist")
        raw = props.with_reply_to(raw, channel.reply_address)
    keys = (run.key, *wanted.cc, *wanted.bcc)
    if wanted.bcc:
        raw = props.without_bcc(raw)
    if not spec.name and any(key.startswith(PREFIX) for key in keys):
        _reply(channel, run, index, keys, raw)
        keys = tuple(key for key in keys if not key.startswith(PREFIX))
        if not keys:
            _count(channel, 1)
            return
    delay_ms = wanted.delay_ms if wanted.delay_ms is not None and is_delayed(spec) else 0
    now_ms = session.broker.clock.now_ms()
    headers = _NO_HEADERS
    if len(keys) > 1:
        headers = (("keys", msgspec.msgpack.encode(keys)),)
    if wanted.expiration_ms is not None:
        expires_ms = now_ms + max(delay_ms, 0) + wanted.expiration_ms
        headers = (*headers, ("expires", expires_ms.to_bytes(8, "big")))
    if delay_ms > 0:
        headers = (*headers, ("space", session.namespace.name.encode()))
        _hold_back(channel, run, index, now_ms + delay_ms, raw, headers)
        return
    table = None
    if wanted.headers and session.namespace.router.depends_on_headers(spec.name):
        table = props.headers(raw)
    route = session.queues.route(session.namespace, spec.name, keys, table)
    if not route.queues:
        if (spec.name or not publish_to_topic(channel, run, index, index + 1)) and run.mandatory:
            _send_back(channel, run, index)
        _count(channel, 1)
        return
    _place(channel, run, index, route, wanted.priority or 0, raw, headers)


def _place(
    channel: Channel,
    run: Publishes,
    index: int,
    route: Route,
    priority: int,
    raw: bytes | None = None,
    headers: Headers = _NO_HEADERS,
) -> None:
    """One message to its queues. One that is full may not take it: the others do, and it is not confirmed."""
    queues = channel.connection.session.queues
    full = queues.full(route, run.body_size(index)) if route.limited else ()
    if not full:
        _put(channel, run, index, route, priority, raw, headers)
        _count(channel, 1)
    elif channel.transaction is not None:
        channel.transaction.failed = True
    else:
        for queue in full:
            buried = queues.refused(queue, run.exchange, [run.key])
            if buried is not None:
                grave, why = buried
                own = run.properties(index) if raw is None else raw
                _put(channel, run, index, grave, priority, own, (*headers, *why))
        rest = route.without(full)
        if rest.queues:
            _put(channel, run, index, rest, priority, raw, headers)
        if channel.confirming:
            channel.connection.confirms.refused(channel)


def _put(
    channel: Channel,
    run: Publishes,
    index: int,
    route: Route,
    priority: int,
    raw: bytes | None,
    headers: Headers,
) -> None:
    transaction = channel.transaction
    if transaction is None:
        gathered = channel.connection.session.queues.gather(route, priority)
    else:
        transaction.grow(run.body_size(index))
        gathered = transaction.gather(route, priority)
    if raw is None:
        encode_records(gathered.out, gathered.count, run, index, index + 1)
    else:
        encode_record(gathered.out, gathered.count, run, index, raw, headers)
        gathered.expiring = gathered.expiring or any(name == "expires" for name, _ in headers)
    gathered.added(1)


def _hold_back(
    channel: Channel, run: Publishes, index: int, due_ms: int, raw: bytes, headers: Headers
) -> None:
    """Written now, with its time; routed when it is due."""
    queues = channel.connection.session.queues

    def hold() -> None:
        gathered = queues.gather_delayed(due_ms)
        encode_record(gathered.out, gathered.count, run, index, raw, headers)
        gathered.added(1)

    if channel.transaction is None:
        hold()
    else:
        run.keep()
        channel.transaction.grow(run.body_size(index))
        channel.transaction.held.append(hold)
    _count(channel, 1)


def _count(channel: Channel, count: int) -> None:
    """Confirmed once the turn is on disk."""
    if channel.confirming:
        channel.connection.confirms.published(channel, count)


def _send_back(channel: Channel, run: Publishes, index: int) -> None:
    connection = channel.connection
    out = connection.outbox.out if channel.transaction is None else channel.transaction.returns
    encode_return(out, connection.session.frame_max, NO_ROUTE, "NO_ROUTE", run, index)
    if channel.transaction is None:
        connection.outbox.flush_soon()
    else:
        channel.transaction.grow(run.body_size(index))


def _reply(channel: Channel, run: Publishes, index: int, keys: tuple[str, ...], raw: bytes) -> None:
    """To the channels that asked; where nobody waits any more it goes back, if it must be seen to arrive."""
    replies = channel.connection.session.listener.replies
    asking = {replies.find(key) for key in keys if key.startswith(PREFIX)} - {None}
    if not asking and run.mandatory:
        _send_back(channel, run, index)
    body = run.body(index)
    for asked in asking:
        assert asked is not None
        send = partial(asked.reply, run.route, raw, body)
        if channel.transaction is None:
            send()
        else:
            channel.transaction.later.append(send)
