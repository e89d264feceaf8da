"""basic.publish: a run of messages for one place is routed once and written straight into the turn's batch.

Messages with a priority, an expiration or headers are looked at one by one, and so are all for an exchange
that picks a queue for each. A message that must be seen to arrive (mandatory) and reaches no queue goes back
before it is confirmed; any message is confirmed.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mainstem.broker.queues import ExchangeSpec, Gathered, Route, is_delayed
from mainstem.fronts.amqp.codes import NO_ROUTE, as_amqp, not_implemented, precondition, refused
from mainstem.fronts.amqp.replies import PREFIX, REPLY_TO
from mainstem.fronts.amqp.topics import publish_to_topic
from mainstem.model.errors import UnknownExchange
from mainstem.model.labels import Labels
from mainstem.model.record import Headers
from mainstem.wire.amqp import properties as props
from mainstem.wire.amqp.convert import AMQP
from mainstem.wire.amqp.deliver import encode_return
from mainstem.wire.amqp.events import Publishes
from mainstem.wire.amqp.records import encode_record, encode_records

if TYPE_CHECKING:
    from mainstem.fronts.amqp.channel import Channel

# Properties for which a message is looked at on its own, beside those that `Publishes.plain` knows.
_LOOKED_AT = props.REPLY_TO | props.USER_ID
_NO_HEADERS: Headers = ()
_SHORT = 256
# A hundred years: longer than any broker has run.
LONGEST_DELAY_MS = 100 * 365 * 86_400_000


class One(NamedTuple):
    """A message by itself. `raw`: its properties, where they may be others than those that came."""

    run: Publishes
    at: int  # its number in the run
    raw: bytes | None = None
    headers: Headers = _NO_HEADERS
    priority: int = 0
    expiration_ms: int | None = None

    @property
    def size(self) -> int:
        """What it takes in memory, about: a message may be all properties."""
        own = self.run.properties(self.at) if self.raw is None else self.raw
        return len(own) + self.run.body_size(self.at)

    def write(self, gathered: Gathered, since_ms: int) -> None:
        """With the others that go there; its time to live begins at `since_ms`."""
        run, at, raw, headers = self.run, self.at, self.raw, self.headers
        if self.expiration_ms is not None:
            expires_ms = since_ms + self.expiration_ms
            headers = (*headers, ("expires", expires_ms.to_bytes(8, "big")))
            gathered.expiring = True
        if raw is None and not headers:
            encode_records(gathered.out, gathered.count, run, at, at + 1)
        else:
            own = run.properties(at) if raw is None else raw
            encode_record(gathered.out, gathered.count, run, at, own, headers)
        gathered.added(1)


# Publishers say the same over and over. Only short ones are remembered: these are as large as a client likes.
_remembered = lru_cache(4096)(props.read)
_remembered_labels = lru_cache(4096)(props.labels)


def _read(raw: bytes) -> props.Wanted:
    return _remembered(raw) if len(raw) <= _SHORT else props.read(raw)


def _labels(raw: bytes) -> Labels:
    """To be looked at only: others with the same properties have the same."""
    return _remembered_labels(raw) if len(raw) <= _SHORT else props.labels(raw)


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
    session.require("write", "exchange", exchange)
    spec = session.namespace.exchanges.get(exchange)
    if spec is None:
        raise as_amqp(UnknownExchange(exchange), session.resource("exchange", exchange))
    channel.is_ahead = True
    if spec.internal:
        raise refused(f"cannot publish to internal {session.resource('exchange', exchange)}")
    alike = plain and not session.namespace.router.picks_each(exchange)
    if alike and (exchange or not run.key.startswith(PREFIX)):
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
            _place(channel, One(run, index), route)
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
    wanted = _read(raw)
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
    headers = (("keys", msgspec.msgpack.encode(keys)),) if len(keys) > 1 else _NO_HEADERS
    one = One(run, index, raw, headers, wanted.priority or 0, wanted.expiration_ms)
    if delay_ms > 0:
        _hold_back(channel, one, session.broker.clock.now_ms() + min(delay_ms, LONGEST_DELAY_MS))
        return
    labels = _labels(raw) if session.namespace.router.depends_on_headers(spec.name) else None
    route = session.queues.route(session.namespace, spec.name, keys, labels)
    if not route.queues:
        if (spec.name or not publish_to_topic(channel, run, index, index + 1)) and run.mandatory:
            _send_back(channel, run, index)
        _count(channel, 1)
        return
    _place(channel, one, route)


def _place(channel: Channel, one: One, route: Route) -> None:
    """One message to its queues. One that is full may not take it: the others do, and it is not confirmed."""
    queues = channel.connection.queues
    run = one.run
    full = queues.full(route, run.body_size(one.at)) if route.limited else ()
    if not full:
        _put(channel, one, route)
        _count(channel, 1)
    elif channel.transaction is not None:
        channel.transaction.failed = True
    else:
        for queue in full:
            raw = run.properties(one.at) if one.raw is None else one.raw
            buried = queues.refused(queue, run.exchange, [run.key], {AMQP: raw})
            if buried is not None:
                grave, why = buried
                _put(channel, one._replace(headers=(*one.headers, *why)), grave)
        rest = route.without(full)
        if rest.queues:
            _put(channel, one, rest)
        if channel.confirming:
            channel.connection.confirms.refused(channel)


def _put(channel: Channel, one: One, route: Route) -> None:
    transaction = channel.transaction
    if transaction is None:
        gathered = channel.connection.queues.gather(route, one.priority)
    else:
        transaction.grow(one.size)
        gathered = transaction.gather(route, one.priority)
    one.write(gathered, gathered.now_ms)


def _hold_back(channel: Channel, one: One, due_ms: int) -> None:
    """Written now, with its time; routed when it is due."""
    connection = channel.connection
    space = ("space", connection.session.namespace.name.encode())
    held = one._replace(headers=(*one.headers, space))
    if channel.transaction is None:
        gathered = connection.queues.gather_delayed(due_ms)
    else:
        channel.transaction.grow(one.size)
        gathered = channel.transaction.gather_delayed(due_ms)
    held.write(gathered, due_ms)
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
        channel.transaction.grow(run.body_size(index) + len(run.properties(index)))


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
