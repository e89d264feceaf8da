"""Everything that lies in one read of an AMQP connection, found in one loop. Compiled where possible.

    frame    type u8 (1 method, 2 content header, 3 body, 8 heartbeat), channel u16, size u32,
             `size` bytes, end octet 0xCE
    publish  method frame:  class u16 = 60, method u16 = 40, reserved u16,
                            exchange shortstr, routing key shortstr, bits u8 (1 mandatory, 2 immediate)
             header frame:  class u16 = 60, weight u16 = 0, body size u64, properties (flags u16, fields)
             body frames:   together of that size; none if it is 0
    ack      method frame:  class u16 = 60, method u16 = 80, 120 (nack) or 90 (reject), tag u64, bits u8

A run of publishes is one object however long it is, and nothing is kept per message: the frames lie side by
side in the buffer, so whoever wants a message walks to it. A content in any other shape (several body
frames, frames of another channel in between, more than one buffer) is put together aside, in the same shape.

Types for the compiler are in scan.pxd; this file is plain Python. Where the two worlds want different code
(`struct` is quick in one, reading byte by byte in the other) both are here, side by side.
"""

from __future__ import annotations

from struct import Struct

from mainstem.wire.amqp.aside import Aside
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.events import (
    ACK,
    DROP,
    FAIL,
    LOOK,
    REQUEUE,
    Acks,
    Event,
    Method,
    Publishes,
    Refused,
)
from mainstem.wire.amqp.records import encode_record, encode_records

# What a front needs of messages that come, in one place.
__all__ = (
    "ACK",
    "DROP",
    "FAIL",
    "REQUEUE",
    "Acks",
    "Event",
    "Method",
    "Publishes",
    "Refused",
    "Scanner",
    "encode_record",
    "encode_records",
)

_COMPILED = not __file__.endswith(".py")

_HEAD = Struct(">BHI")
_HEADER = Struct(">BHIHHQH")  # type, channel, size, class, weight, body size, flags
_METHOD, _CONTENT_HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END = 0xCE
_FRAME_BYTES = 8  # around a payload
_PUBLISH, _ACK, _REJECT, _NACK = 0x003C0028, 0x003C0050, 0x003C005A, 0x003C0078
_BASIC = 60
_ROUTE_AT = 13  # in a publish frame
_SMALLEST_PUBLISH = 17  # two empty strings
_SMALLEST_HEADER = 22
_SMALLEST_SIZE = 14  # of its payload
_ANSWER_BYTES = 21  # an ack, nack or reject
_FIELDS_AT = 21  # in a header frame: properties but for their flags
_HEADER_FIXED = 12  # bytes of its payload before the properties
_METHOD_ID_BYTES = 4
_MAX_TAG = (1 << 64) - 1

_LOOK = LOOK
_HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP = 0x2000, 0x1000, 0x0800, 0x0040
_UNKNOWN_FLAGS = 0x0003  # no 15th property is known, nor a second word of flags

# Of a message: its bytes have not all come; it is not in one piece, or wrong.
_LATER, _ASIDE = -1, -2


class Scanner:
    """What one connection sends, as events. Limits may be changed between two scans.

    frame_max       largest frame, all of its bytes counted
    channel_max     highest channel number
    max_body_bytes  largest body of a message
    """

    __slots__ = (
        "_aside",
        "_broken",
        "_flags",
        "_needed",
        "_size",
        "channel_max",
        "frame_max",
        "heartbeats",
        "max_body_bytes",
    )

    def __init__(self, frame_max: int, channel_max: int, max_body_bytes: int) -> None:
        self.frame_max = frame_max
        self.channel_max = channel_max
        self.max_body_bytes = max_body_bytes
        self.heartbeats = 0  # seen so far
        self._aside = Aside()
        self._flags = 0  # of the message found last, and its bytes: properties and body
        self._size = 0
        self._needed = 0  # up to where there must be bytes for the message that was not complete
        self._broken: Refused | None = None

    def scan(self, buffer: bytearray, start: int, end: int) -> tuple[int, list[Event]]:
        """How far buffer[start:end] was used, and the events in it, in order.

        The rest, less than `frame_max` bytes, is wanted again with what follows it. After an error that
        closes the connection there is nothing but that error.
        """
        events: list[Event] = []
        if start < 0 or end > len(buffer):
            raise IndexError(end)
        if self._broken is None:
            try:
                return self._scan(buffer, start, end, events), events
            except AmqpError as error:
                self._broken = Refused(0, error)
                self._aside.clear()
        events.append(self._broken)
        return end, events

    def forget(self, channel: int) -> None:
        """The channel was closed: what is missing of its message will not come."""
        self._aside.forget(channel)

    @property
    def held_bytes(self) -> int:
        """Of messages that are not complete."""
        return self._aside.held_bytes

    def _scan(self, buffer: bytearray, at: int, end: int, events: list[Event]) -> int:
        while end - at >= _FRAME_BYTES:
            kind, channel, size = buffer[at], _u16(buffer, at + 1), _u32(buffer, at + 3)
            if kind != _METHOD or channel > self.channel_max or size > self.frame_max - _FRAME_BYTES:
                self._check_head(kind, channel, size)
            stop = at + size + _FRAME_BYTES
            if stop > end:
                break
            if buffer[stop - 1] != _END:
                raise AmqpError(501, f"a frame of {size} bytes on channel {channel} without its end octet")
            if kind == _METHOD:
                if size < _METHOD_ID_BYTES:
                    raise AmqpError(501, f"a method frame of {size} bytes")
                index = _u32(buffer, at + 7)
                if self._aside:
                    self._aside.method(channel, index)
                if index == _PUBLISH:
                    after = self._publishes(buffer, at, end, events)
                    if after == at:
                        break  # the rest of its content has not come
                    at = after
                elif index in (_ACK, _NACK, _REJECT):
                    at = _answers(buffer, at, end, events)
                else:
                    events.append(Method(channel, bytes(buffer[at + 7 : stop - 1])))
                    at = stop
            elif kind == _HEARTBEAT:
                self.heartbeats += 1
                at = stop
            else:
                event = self._aside.content(channel, buffer[at:stop], self.max_body_bytes, self.frame_max)
                if event is not None:
                    events.append(event)
                at = stop
        return at

    def _check_head(self, kind: int, channel: int, size: int) -> None:
        if kind not in (_METHOD, _CONTENT_HEADER, _BODY, _HEARTBEAT):
            raise AmqpError(501, f"a frame of type {kind}")
        most = self.frame_max - _FRAME_BYTES
        if size > most:
            raise AmqpError(501, f"a frame of {size} bytes, at most {most} were agreed on")
        if channel > self.channel_max:
            raise AmqpError(504, f"channel {channel}, at most {self.channel_max} was agreed on")
        if kind == _HEARTBEAT and (channel or size):
            raise AmqpError(505, f"a heartbeat of {size} bytes on channel {channel}")
        if channel == 0 and kind in (_CONTENT_HEADER, _BODY):
            raise AmqpError(505, "content on channel 0")

    def _publishes(self, buffer: bytearray, at: int, end: int, events: list[Event]) -> int:
        """This publish and all that equal it; returns where they end, `at` if nothing could be used."""
        channel = _u16(buffer, at + 1)
        size = _u32(buffer, at + 3) + _FRAME_BYTES
        frame = bytes(buffer[at : at + size])
        _check_publish(channel, frame)
        first = at + size
        count = total = present = 0
        while True:
            after = self._content(buffer, at + size, end, channel)
            if after < 0:
                break
            if count > 0 and (self._flags ^ present) & _LOOK:
                events.append(Publishes(channel, frame, buffer, first, size, count, total, present))
                first = at + size
                count = total = present = 0
            count += 1
            total += self._size
            present |= self._flags
            at = after
            if end - at < size or not _equal(buffer, at, frame, size):
                break
        if count > 0:
            events.append(Publishes(channel, frame, buffer, first, size, count, total, present))
        if after < 0 and (after == _ASIDE or self._needed - at > self.frame_max):
            self._aside.begin(channel, frame)
            return at + size
        return at

    def _content(self, buffer: bytearray, at: int, end: int, channel: int) -> int:
        """Where the message ends whose header frame is at `at`, if all of it lies here in one piece."""
        if end - at < _SMALLEST_HEADER:
            # Whatever else lies here must not wait for more.
            if end - at >= _FRAME_BYTES and (
                buffer[at] != _CONTENT_HEADER
                or _u16(buffer, at + 1) != channel
                or _u32(buffer, at + 3) < _SMALLEST_SIZE
            ):
                return _ASIDE
            self._needed = at + _SMALLEST_HEADER
            return _LATER
        if _COMPILED:
            kind, its_channel, size = buffer[at], _u16(buffer, at + 1), _u32(buffer, at + 3)
            class_id, weight = _u16(buffer, at + 7), _u16(buffer, at + 9)
            body_size, flags = _u64(buffer, at + 11), _u16(buffer, at + 19)
        else:
            kind, its_channel, size, class_id, weight, body_size, flags = _HEADER.unpack_from(buffer, at)
        most = self.frame_max - _FRAME_BYTES
        if kind != _CONTENT_HEADER or its_channel != channel or class_id != _BASIC or weight != 0:
            return _ASIDE
        if size > most or size < _SMALLEST_SIZE or body_size > most or body_size > self.max_body_bytes:
            return _ASIDE
        stop = at + size + _FRAME_BYTES
        if stop > end:
            self._needed = stop
            return _LATER
        if buffer[stop - 1] != _END:
            return _ASIDE
        # Nothing but a delivery mode is by far the most common.
        if (flags != _DELIVERY_MODE or size != _SMALLEST_SIZE + 1) and not _sound(
            buffer, at + _FIELDS_AT, stop - 1, flags
        ):
            return _ASIDE
        after = stop
        if body_size > 0:
            after += body_size + _FRAME_BYTES
            self._needed = after
            if end - stop < _FRAME_BYTES:
                return _LATER
            if _COMPILED:
                kind, its_channel, part = buffer[stop], _u16(buffer, stop + 1), _u32(buffer, stop + 3)
            else:
                kind, its_channel, part = _HEAD.unpack_from(buffer, stop)
            if kind != _BODY or its_channel != channel or part != body_size:
                return _ASIDE
            if after > end:
                return _LATER
            if buffer[after - 1] != _END:
                return _ASIDE
        self._flags = flags
        self._size = size - _HEADER_FIXED + body_size
        return after


def _check_publish(channel: int, frame: bytes) -> None:
    if channel == 0:
        raise AmqpError(504, "a publish on channel 0", _BASIC, 40)
    size = len(frame)
    if size >= _SMALLEST_PUBLISH:
        key_at = _ROUTE_AT + 1 + frame[_ROUTE_AT]
        if key_at < size and key_at + frame[key_at] + 3 == size:
            return
    raise AmqpError(502, "a publish whose exchange or routing key is cut short", _BASIC, 40)


def _answers(buffer: bytearray, at: int, end: int, events: list[Event]) -> int:
    """The ack, nack or reject here, with those behind it that continue it; returns where they end."""
    channel, size, index = _u16(buffer, at + 1), _u32(buffer, at + 3), _u32(buffer, at + 7)
    if size != _ANSWER_BYTES - _FRAME_BYTES:
        raise AmqpError(502, f"an ack, nack or reject of {size} bytes", _BASIC, index & 0xFFFF)
    if channel == 0:
        raise AmqpError(504, "an ack, nack or reject on channel 0", _BASIC, index & 0xFFFF)
    first, bits = _u64(buffer, at + 11), buffer[at + 19]
    multiple = index != _REJECT and bits & 1 != 0
    kind = ACK
    if index == _NACK:
        kind = REQUEUE if bits & 2 else DROP
    elif index == _REJECT:
        kind = FAIL if bits & 1 else DROP
    last = first
    if _COMPILED:
        start = at
        at += _ANSWER_BYTES
        while not multiple and last < _MAX_TAG and _follows(buffer, at, end, start, last + 1):
            last += 1
            at += _ANSWER_BYTES
    else:
        before, behind = bytes(buffer[at : at + 11]), bytes((bits, _END))
        at += _ANSWER_BYTES
        while not multiple and last < _MAX_TAG and buffer.startswith(before, at, end):
            if buffer[at + 11 : at + 21] != (last + 1).to_bytes(8, "big") + behind:
                break
            last += 1
            at += _ANSWER_BYTES
    events.append(Acks(channel, first, last, multiple, kind))
    return at


def _follows(buffer: bytearray, at: int, end: int, start: int, tag: int) -> bool:
    """Whether there is a frame at `at` that equals the one at `start` but for its tag."""
    if end - at < _ANSWER_BYTES:
        return False
    for index in range(11):
        if buffer[at + index] != buffer[start + index]:
            return False
    return _u64(buffer, at + 11) == tag and buffer[at + 19] == buffer[start + 19] and buffer[at + 20] == _END


def _sound(data: bytearray, at: int, stop: int, flags: int) -> bool:
    """Whether the properties that `flags` announces fill data[at:stop]."""
    if flags & _UNKNOWN_FLAGS:
        return False
    mask = 0x8000
    while flags:
        if flags & mask:
            flags ^= mask
            if mask in (_DELIVERY_MODE, _PRIORITY):
                at += 1
            elif mask == _TIMESTAMP:
                at += 8
            elif mask == _HEADERS:
                if stop - at < 4:
                    return False
                at += 4 + _u32(data, at)
            elif at < stop:
                at += 1 + data[at]
            else:
                return False
            if at > stop:
                return False
        mask >>= 1
    return at == stop


def _equal(buffer: bytearray, at: int, frame: bytes, size: int) -> bool:
    """Whether `frame` lies at `at`, where there are `size` bytes, which is its size."""
    if _COMPILED:
        one, other = buffer, frame
        different = 0
        for index in range(size):
            different |= one[at + index] ^ other[index]
        return different == 0
    return buffer.startswith(frame, at)


def _u16(data: bytearray, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _u32(data: bytearray, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def _u64(data: bytearray, at: int) -> int:
    high = _u32(data, at)  # wide enough to be moved up
    return high << 32 | _u32(data, at + 4)
