"""Records as deliveries: a run of them into one stretch of bytes. Compiled where possible.

    delivery   method frame: class u16 = 60, method u16 = 60, consumer tag shortstr, delivery tag u64,
                             redelivered u8, exchange shortstr, routing key shortstr
               header frame and body frames as in scan.py

A record whose headers are exactly `route` and `amqp` (records.py: what an AMQP client has published) is
copied part by part. All others go through message.py.

Types for the compiler are in deliver.pxd; this file is plain Python, with both ways where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

from mainstem.model.record_loop import Span
from mainstem.wire.amqp.events import Publishes
from mainstem.wire.amqp.message import Batch, StreamMessages, message

_COMPILED = not __file__.endswith(".py")

_HEAD = Struct(">BHI")
_METHOD = Struct(">BHII")  # type, channel, size, class and method
_CONTENT = Struct(">BHIHHQ")  # type, channel, size, class, weight, body size
_TAG_AGAIN = Struct(">QB")
_U32 = Struct(">I")
_BASIC = 60
_DELIVER, _GET_OK, _RETURN = 0x003C003C, 0x003C0047, 0x003C0032
_END = b"\xce"
_END_OCTET = 0xCE
_FRAME_BYTES = 8
_HEADER_FIXED = 12
_ROUTE_HEADER = b"\x04\x0aroute"
_AMQP_HEADER = b"\x08amqp"
_ROUTE_HEADER_BYTES = 7
_AMQP_HEADER_BYTES = 5
_CLASS_WEIGHT = b"\0\x3c\0\0"
# Of a delivery with one body frame, beside what lies in the record and what its payload begins with.
_AROUND_BYTES = 3 * _FRAME_BYTES + 9 + _HEADER_FIXED
# More at a time would be memory that the system has to clear first.
_ROOM_BYTES = 64 << 10
_ROOM = bytes(_ROOM_BYTES)
_NO_EXTRA: Mapping[str, int] = {}


class GetOk(NamedTuple):
    """Of an answer to basic.get: where it goes and what stands before the message."""

    channel: int
    frame_max: int
    delivery_tag: int
    again: bool
    message_count: int  # left in the queue


class Deliveries:
    """To one consumer. With `with_offset` every message has its offset in the header x-stream-offset."""

    __slots__ = ("_before", "_stream", "channel", "frame_max", "with_offset")

    def __init__(self, channel: int, consumer_tag: str, frame_max: int, with_offset: bool = False) -> None:
        tag = consumer_tag.encode()
        self.channel = channel
        self.frame_max = frame_max
        self.with_offset = with_offset
        self._stream = StreamMessages(frame_max) if with_offset else None
        self._before = _U32.pack(_DELIVER) + bytes((len(tag),)) + tag  # what a payload begins with

    def encode(
        self, out: bytearray, delivery_tag: int, again: bool, batch: Batch, first: int, stop: int
    ) -> int:
        """Append the records first to stop, numbered from `delivery_tag`; returns the next number."""
        data, spans = batch.data, batch.spans
        index = first
        while index < stop:
            if not self.with_offset:
                done = self._usual(out, delivery_tag, again, data, spans, index, stop)
                delivery_tag += done - index
                index = done
            if index < stop:
                self.encode_one(out, delivery_tag, again, batch, index, _NO_EXTRA)
                delivery_tag += 1
                index += 1
        return delivery_tag

    def encode_one(
        self,
        out: bytearray,
        delivery_tag: int,
        again: bool,
        batch: Batch,
        index: int,
        extra: Mapping[str, int],
    ) -> None:
        """One record, with `extra` among its headers."""
        if self._stream is not None:
            route, raw, body = self._stream.message(batch, index, extra)
        else:
            route, raw, body = message(batch, index, extra, self.frame_max)
        self._append(out, delivery_tag, again, route, raw, body)

    def encode_message(
        self, out: bytearray, delivery_tag: int, route: bytes, raw: bytes, body: bytes
    ) -> None:
        """A message that is no record."""
        self._append(out, delivery_tag, False, route, raw, body)

    def _append(
        self, out: bytearray, delivery_tag: int, again: bool, route: bytes, raw: bytes, body: bytes
    ) -> None:
        payload = self._before + _TAG_AGAIN.pack(delivery_tag, again) + route
        _append_message(out, self.channel, self.frame_max, payload, raw, body)

    def _usual(
        self,
        out: bytearray,
        delivery_tag: int,
        again: bool,
        data: bytes,
        spans: list[Span],
        first: int,
        stop: int,
    ) -> int:
        """Records as long as they have the usual two headers; returns the index of the next one."""
        if _COMPILED:
            return self._write(out, delivery_tag, again, data, spans, first, stop)
        channel, before, most = self.channel, self._before, self.frame_max - _FRAME_BYTES
        join, tag_again = b"".join, _TAG_AGAIN.pack
        seen, seen_size = b"", -1
        start = middle = b""
        for index in range(first, stop):
            _at, end, _time, _delta, _key_at, _key_size, body_at, body_size, headers_at = spans[index]
            headers = data[headers_at:end]
            # Neighbours mostly went the same way with the same properties, and bodies of the same size.
            if headers != seen or body_size != seen_size:
                parts = _two_headers(headers)
                if parts is None or body_size > most:
                    return index
                route, raw = parts
                seen, seen_size = headers, body_size
                start = _HEAD.pack(1, channel, len(before) + 9 + len(route)) + before
                middle = route + _END + _header_frame(channel, raw, max(body_size, 0))
                if body_size > 0:
                    middle += _HEAD.pack(3, channel, body_size)
            if body_size > 0:
                body = data[body_at : body_at + body_size]
                out += join((start, tag_again(delivery_tag, again), middle, body, _END))
            else:
                out += join((start, tag_again(delivery_tag, again), middle))
            delivery_tag += 1
        return stop

    def _write(
        self,
        out: bytearray,
        delivery_tag: int,
        again: bool,
        data: bytes,
        spans: list[Span],
        first: int,
        stop: int,
    ) -> int:
        """The compiled way: every part is written where it belongs, in room made before."""
        before, channel, most = self._before, self.channel, self.frame_max - _FRAME_BYTES
        before_size, length = len(before), len(data)
        to, room = len(out), len(out)
        for index in range(first, stop):
            span = spans[index]
            end, body_at, body_size, at = span[1], span[6], span[7], span[8]
            route_at, route_size, raw_at, raw_size = _parts(data, at, end)
            if route_at < 0 or body_size > most:
                stop = index
                break
            if body_size < 0:
                body_size = 0
            if body_at < 0 or body_at + body_size > length:
                raise IndexError("a record beyond its batch")
            needed = _AROUND_BYTES + before_size + route_size + raw_size + body_size
            if room - to < needed:
                # Messages are mostly of one size: room for all that are left, if they are like this one.
                wanted = needed * (stop - index)
                if wanted < _ROOM_BYTES:
                    out.extend(bytes(wanted))
                else:
                    out.extend(_ROOM if needed <= _ROOM_BYTES else bytes(needed))
                room = len(out)
            to = _put_head(out, to, 1, channel, before_size + 9 + route_size)
            to = _put(out, to, before, 0, before_size)
            to = _put_u64(out, to, delivery_tag)
            out[to] = again
            to = _put(out, to + 1, data, route_at, route_size)
            out[to] = _END_OCTET
            to = _put_head(out, to + 1, 2, channel, _HEADER_FIXED + raw_size)
            to = _put(out, to, _CLASS_WEIGHT, 0, 4)
            to = _put_u64(out, to, body_size)
            to = _put(out, to, data, raw_at, raw_size)
            out[to] = _END_OCTET
            to += 1
            if body_size > 0:
                to = _put_head(out, to, 3, channel, body_size)
                to = _put(out, to, data, body_at, body_size)
                out[to] = _END_OCTET
                to += 1
            delivery_tag += 1
        del out[to:]
        return stop


def _parts(data: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Where `route` and `amqp` lie and their sizes, if data[at:end] is these two headers; else -1."""
    if end > len(data) or not _begins(data, at, end, _ROUTE_HEADER, _ROUTE_HEADER_BYTES):
        return -1, 0, 0, 0
    route_size, route_at = _size_at(data, at + _ROUTE_HEADER_BYTES)
    at = route_at + route_size
    if route_size < 0 or at > end or not _begins(data, at, end, _AMQP_HEADER, _AMQP_HEADER_BYTES):
        return -1, 0, 0, 0
    raw_size, raw_at = _size_at(data, at + _AMQP_HEADER_BYTES)
    if raw_size < 0 or raw_at + raw_size != end:
        return -1, 0, 0, 0
    return route_at, route_size, raw_at, raw_size


def _begins(data: bytes, at: int, end: int, name: bytes, size: int) -> bool:
    """Whether a header's name lies at `at`, with something behind it."""
    if at < 0 or end - at <= size:
        return False
    one, other = data, name
    different = 0
    for index in range(size):
        different |= one[at + index] ^ other[index]
    return different == 0


def _size_at(data: bytes, at: int) -> tuple[int, int]:
    """The size at `at`, and where it ends; -1 for one beyond two bytes, or none."""
    raw = data[at]
    if raw >= 128:
        at += 1
        raw = raw & 127 | data[at] << 7
        if raw >= 1 << 14:
            return -1, at
    return (-1 if raw & 1 else raw >> 1), at + 1


def _put_head(out: bytearray, to: int, kind: int, channel: int, size: int) -> int:
    target = out
    target[to] = kind
    target[to + 1] = channel >> 8
    target[to + 2] = channel & 255
    target[to + 3] = size >> 24
    target[to + 4] = size >> 16 & 255
    target[to + 5] = size >> 8 & 255
    target[to + 6] = size & 255
    return to + 7


def _put_u64(out: bytearray, to: int, number: int) -> int:
    target = out
    for index in range(8):
        target[to + index] = number >> (56 - 8 * index) & 255
    return to + 8


def _put(out: bytearray, to: int, data: bytes, start: int, size: int) -> int:
    """Copy where there is room; returns where it ends. Compiled, such a loop is a copy of memory."""
    target, source = out, data
    for index in range(size):
        target[to + index] = source[start + index]
    return to + size


def encode_get_ok(
    out: bytearray, place: GetOk, batch: Batch, index: int, extra: Mapping[str, int] = _NO_EXTRA
) -> None:
    """The answer to basic.get."""
    route, raw, body = message(batch, index, extra, place.frame_max)
    payload = _U32.pack(_GET_OK) + _TAG_AGAIN.pack(place.delivery_tag, place.again) + route
    payload += _U32.pack(place.message_count)
    _append_message(out, place.channel, place.frame_max, payload, raw, body)


def encode_return(out: bytearray, frame_max: int, code: int, text: str, publishes: Publishes, i: int) -> None:
    """A published message back to its publisher, who wanted to know that it went nowhere."""
    raw_text = text.encode()
    payload = _U32.pack(_RETURN) + code.to_bytes(2, "big") + bytes((len(raw_text),)) + raw_text
    payload += publishes.route
    _append_message(out, publishes.channel, frame_max, payload, publishes.properties(i), publishes.body(i))


def _two_headers(headers: bytes) -> tuple[bytes, bytes] | None:
    """Values of `route` and `amqp`, if there is nothing else."""
    if not headers.startswith(_ROUTE_HEADER):
        return None
    route, at = _sized(headers, _ROUTE_HEADER_BYTES)
    if not headers.startswith(_AMQP_HEADER, at):
        return None
    raw, at = _sized(headers, at + _AMQP_HEADER_BYTES)
    return (route, raw) if at == len(headers) else None


def _sized(headers: bytes, at: int) -> tuple[bytes, int]:
    """Bytes with their size, a varint, in front, and where they end; a scan has found them sound."""
    number, shift = 0, 0
    while True:
        byte = headers[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if number & 1:
        return b"", 0  # null
    size = number >> 1
    return headers[at : at + size], at + size


def _header_frame(channel: int, raw: bytes, body_size: int) -> bytes:
    return _CONTENT.pack(2, channel, _HEADER_FIXED + len(raw), _BASIC, 0, body_size) + raw + _END


def _append_message(
    out: bytearray, channel: int, frame_max: int, payload: bytes, raw: bytes, body: bytes
) -> None:
    """Method, header and as many body frames as it takes."""
    out += _HEAD.pack(1, channel, len(payload))
    out += payload
    out += _END
    out += _header_frame(channel, raw, len(body))
    most = frame_max - _FRAME_BYTES
    for at in range(0, len(body), most):
        part = body[at : at + most]
        out += _HEAD.pack(3, channel, len(part))
        out += part
        out += _END
