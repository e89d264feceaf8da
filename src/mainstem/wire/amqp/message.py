"""Any record as an AMQP message: route, properties and body.

What an AMQP client has published has its own. What a Kafka client has written gets properties by the table of
convert.py. A dead letter is told its history. Of headers with the same name the last one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Protocol

from mainstem.model.record import Headers
from mainstem.model.record_loop import Span, decode
from mainstem.wire.amqp import convert, properties
from mainstem.wire.amqp.dead import deaths, with_deaths
from mainstem.wire.amqp.errors import AmqpError

# Header frame but for its properties: 8 bytes around a payload, 12 at its start.
_AROUND_PROPERTIES = 20
_OFFSET_HEADER = "x-stream-offset"
_OFFSET_MARK = -(1 << 62)  # no offset, and no number that is likely in a header
_I64 = Struct(">q")

Message = tuple[bytes, bytes, bytes]  # route, properties, body


class Batch(Protocol):
    """Records that lie in `data` as `spans` say."""

    @property
    def data(self) -> bytes: ...
    @property
    def spans(self) -> list[Span]: ...
    @property
    def base_ms(self) -> int: ...
    @property
    def base_offset(self) -> int: ...


def message(batch: Batch, index: int, extra: Mapping[str, int], frame_max: int) -> Message:
    """With `extra` among its headers."""
    start, stop, _time, delta, *_rest = batch.spans[index]
    record = decode(batch.data[start:stop], 1, delta, batch.base_offset, batch.base_ms, None)[0]
    route, raw = _route_and_properties(record.headers, record.timestamp_ms, frame_max)
    if route is None:
        route = convert.route_of(record.key)
    if extra:
        raw = properties.patch(raw, extra)
    return route, raw, record.value or b""


class StreamMessages:
    """Records of a stream, which get their offset as a header: much is the same from one to the next."""

    def __init__(self, frame_max: int) -> None:
        self._frame_max = frame_max
        self._headers: bytes | None = None  # of the record seen last, and its time
        self._seconds = 0
        self._route: bytes | None = None  # None: made of each record's key
        self._before = self._behind = b""  # properties on both sides of the offset

    def message(self, batch: Batch, index: int, extra: Mapping[str, int]) -> Message:
        data = batch.data
        _at, stop, time_ms, delta, key_at, key_size, body_at, body_size, headers_at = batch.spans[index]
        headers = data[headers_at:stop]
        seconds = (batch.base_ms + time_ms) // 1000
        if headers != self._headers or seconds != self._seconds:
            self._learn(batch, index)
            self._headers, self._seconds = headers, seconds
        raw = self._before + _I64.pack(batch.base_offset + delta) + self._behind
        if extra:
            raw = properties.patch(raw, extra)
        route = self._route
        if route is None:
            route = convert.route_of(data[key_at : key_at + key_size] if key_size >= 0 else None)
        return route, raw, data[body_at : body_at + max(body_size, 0)]

    def _learn(self, batch: Batch, index: int) -> None:
        start, stop, _time, delta, *_rest = batch.spans[index]
        record = decode(batch.data[start:stop], 1, delta, batch.base_offset, batch.base_ms, None)[0]
        self._route, raw = _route_and_properties(record.headers, record.timestamp_ms, self._frame_max)
        marked = properties.patch(raw, {_OFFSET_HEADER: _OFFSET_MARK})
        # The header that was set last is the last one of the table: look for it from behind.
        at = marked.rindex(_OFFSET_HEADER.encode() + b"l" + _I64.pack(_OFFSET_MARK))
        at += len(_OFFSET_HEADER) + 1
        self._before, self._behind = marked[:at], marked[at + _I64.size :]


def _route_and_properties(headers: Headers, timestamp_ms: int, frame_max: int) -> tuple[bytes | None, bytes]:
    """No route if the record has none: then it is made of its key."""
    named = dict(headers)
    route = named.get(convert.ROUTE)
    if route is not None and not _is_route(route):
        route = None
    raw = named.get(convert.AMQP)
    if raw is None or not _are_properties(raw):
        raw = convert.to_amqp(headers, timestamp_ms, frame_max - _AROUND_PROPERTIES - _OFFSET_BYTES)
    died = named.get(convert.DEAD)
    if died is not None:
        raw = with_deaths(raw, deaths(died))
    return route, raw


# What an offset adds to properties: the size of a table, a name with its size, a type and the number.
_OFFSET_BYTES = 4 + 1 + len(_OFFSET_HEADER) + 1 + 8


def _is_route(route: bytes) -> bool:
    if len(route) < 2:
        return False
    key_at = 1 + route[0]
    return key_at < len(route) and key_at + 1 + route[key_at] == len(route)


def _are_properties(raw: bytes) -> bool:
    """A Kafka client may write any header: a consumer must not be sent what it cannot read."""
    try:
        properties.decode(raw)
    except AmqpError:
        return False
    return True
