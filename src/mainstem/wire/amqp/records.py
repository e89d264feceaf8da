"""Published messages as records of a batch. Compiled where possible; types are in records.pxd.

A record (its format is drawn in model/record_loop.py) has the routing key as key, the body as value, and two
headers: `route`, the short strings of exchange and routing key, and `amqp`, the properties as they came.
"""

from __future__ import annotations

from struct import Struct

from mainstem.model.record import Headers
from mainstem.model.record_loop import append_record, encode_headers
from mainstem.wire.amqp.events import Publishes

_COMPILED = not __file__.endswith(".py")
_PLACE = Struct(">3xI4xQ")  # of a header frame: size, body size
_FRAME_BYTES = 8
_HEAD_BYTES = 7
_PROPERTIES_AT = 19  # in a header frame
_HEADER_BYTES = 20  # of one, but for its properties
_HEADER_FIXED = 12
_MAX_VARINT_BYTES = 5  # of a size
# More at a time would be memory that the system has to clear first.
_ROOM_BYTES = 64 << 10
_ROOM = bytes(_ROOM_BYTES)
_ONE_BYTE = tuple(bytes((value,)) for value in range(128))
_ROUTE_HEADER = b"\x04\x0aroute"  # two headers, the first of them
_AMQP_HEADER = b"\x08amqp"


def encode_records(out: bytearray, first_index: int, publishes: Publishes, i: int, j: int) -> None:
    """Append messages i to j as records numbered from `first_index`, each with the headers route and amqp."""
    if i >= j:
        return
    route = publishes.route
    key = route[2 + route[0] :]
    before = _varint(len(key)) + key
    behind = _ROUTE_HEADER + _varint(len(route)) + route + _AMQP_HEADER
    if j > publishes.count:
        raise IndexError(f"message {j - 1} of {publishes.count}")
    at, data, gap = publishes.find(i), publishes.data, publishes.gap
    if _COMPILED:
        _write_records(out, first_index, data, at, gap, j - i, before, behind)
        return
    place, varint = _PLACE.unpack_from, _varint
    for index in range(first_index, first_index + j - i):
        size, body_size = place(data, at)
        properties_at = at + _PROPERTIES_AT
        at += size + _FRAME_BYTES
        properties = data[properties_at : at - 1]
        body_at = at + _HEAD_BYTES
        record = b"".join(
            (
                b"\0\0",
                varint(index),
                before,
                varint(body_size),
                data[body_at : body_at + body_size],
                behind,
                varint(len(properties)),
                properties,
            )
        )
        out += varint(len(record))
        out += record
        if body_size:
            at = body_at + body_size + 1
        at += gap


def _write_records(
    out: bytearray, index: int, data: bytearray, at: int, gap: int, count: int, before: bytes, behind: bytes
) -> None:
    """The compiled way: each part of each record is written where it belongs, in room made before."""
    before_size, behind_size = len(before), len(behind)
    fixed = 2 + before_size + behind_size
    to, room, length = len(out), len(out), len(data)
    for number in range(index, index + count):
        properties_size, body_size = _u32(data, at + 3) - _HEADER_FIXED, _u32(data, at + 15)
        size = fixed + _varint_size(number) + _varint_size(body_size) + body_size
        size += _varint_size(properties_size) + properties_size
        # What lies there was checked when it was found; a buffer that changed since must not be read beyond.
        if properties_size < 0 or at + _HEADER_BYTES + properties_size + body_size > length:
            raise IndexError("the buffer of a run has changed")
        if room - to < size + _MAX_VARINT_BYTES:
            # Messages are mostly of one size: room for all that are left, if they are like this one.
            needed = size + _MAX_VARINT_BYTES
            wanted = needed * (index + count - number)
            if wanted < _ROOM_BYTES:
                out.extend(bytes(wanted))
            else:
                out.extend(_ROOM if needed <= _ROOM_BYTES else bytes(needed))
            room = len(out)
        to = _put_varint(out, to, size)
        to += 2  # attributes and timestamp delta are 0
        to = _put_varint(out, to, number)
        to = _put(out, to, before, before_size)
        to = _put_varint(out, to, body_size)
        properties_at = at + _PROPERTIES_AT
        at = properties_at + properties_size + 1
        if body_size > 0:
            to = _put_from(out, to, data, at + _HEAD_BYTES, body_size)
            at += body_size + _FRAME_BYTES
        to = _put(out, to, behind, behind_size)
        to = _put_varint(out, to, properties_size)
        to = _put_from(out, to, data, properties_at, properties_size)
        at += gap
    del out[to:]


def encode_record(
    out: bytearray, index: int, publishes: Publishes, i: int, properties: bytes, headers: Headers
) -> None:
    """Append one message with other properties, and with more headers behind route and amqp."""
    route = publishes.route
    named = (("route", route), ("amqp", properties), *headers)
    append_record(out, 0, index, route[2 + route[0] :], publishes.body(i), encode_headers(named))


def _put_varint(out: bytearray, to: int, number: int) -> int:
    """Write a number that is not negative, zigzag-coded, where there is room; returns where it ends."""
    raw = number << 1
    while raw >= 128:
        out[to] = raw & 127 | 128
        raw >>= 7
        to += 1
    out[to] = raw
    return to + 1


def _put(out: bytearray, to: int, part: bytes, size: int) -> int:
    """Copy where there is room; returns where it ends. Compiled, such a loop is a copy of memory."""
    target, source = out, part
    for index in range(size):
        target[to + index] = source[index]
    return to + size


def _put_from(out: bytearray, to: int, data: bytearray, start: int, size: int) -> int:
    target, source = out, data
    for index in range(size):
        target[to + index] = source[start + index]
    return to + size


def _u32(data: bytearray, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def _varint_size(number: int) -> int:
    raw = number << 1
    size = 1
    while raw >= 128:
        raw >>= 7
        size += 1
    return size


def _varint(number: int) -> bytes:
    raw = number << 1
    if raw < 128:
        return _ONE_BYTE[raw]
    if raw < 16384:
        return bytes((raw & 127 | 128, raw >> 7))
    size = _varint_size(number)
    out = bytearray(size)
    _put_varint(out, 0, number)
    return bytes(out)


_MAX_VARINT_BYTES = 5  # of a size
# More at a time would be memory that the system has to clear first.
_ROOM_BYTES = 64 << 10
_ROOM = bytes(_ROOM_BYTES)
_ONE_BYTE = tuple(bytes((value,)) for value in range(128))
_ROUTE_HEADER = b"\x04\x0aroute"  # two headers, the first of them
_AMQP_HEADER = b"\x08amqp"
