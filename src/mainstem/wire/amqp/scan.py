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
from typing import NamedTuple

from mainstem.model.record import Headers
from mainstem.model.record_loop import append_record, encode_headers
from mainstem.wire.amqp.errors import AmqpError

_COMPILED = not __file__.endswith(".py")

# Kinds of answers to deliveries.
ACK = 1
DROP = 2  # rejected or nacked, not to be queued again
REQUEUE = 3

_HEAD = Struct(">BHI")
_HEAD_METHOD = Struct(">BHII")
_HEADER = Struct(">BHIHHQH")  # type, channel, size, class, weight, body size, flags
_PLACE = Struct(">3xI4xQ")  # of a header frame: size, body size
_METHOD, _CONTENT_HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END = 0xCE
_FRAME_BYTES = 8  # around a payload
_PUBLISH, _ACK, _REJECT, _NACK = 0x003C0028, 0x003C0050, 0x003C005A, 0x003C0078
_CHANNEL_CLOSE, _CHANNEL_CLOSE_OK = 0x00140028, 0x00140029
_BASIC = 60
_ROUTE_AT = 13  # in a publish frame
_SMALLEST_PUBLISH = 17  # two empty strings
_SMALLEST_HEADER = 22
_ANSWER_BYTES = 21
_PROPERTIES_AT = 19  # in a header frame, and their fields behind the flags
_FIELDS_AT = 21
_HEADER_FIXED = 12  # bytes of its payload before the properties
_SMALLEST_SIZE = 14
_METHOD_ID_BYTES = 4

# Property flags that a broker has to look at, message by message: headers, priority, expiration.
_LOOK = 0x2000 | 0x0800 | 0x0100
_HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP = 0x2000, 0x1000, 0x0800, 0x0040
_UNKNOWN_FLAGS = 0x0003  # no 15th property is known, nor a second word of flags

# Of a message: its bytes have not all come; it is not in one piece, or wrong.
_LATER, _ASIDE = -1, -2


class Acks(NamedTuple):
    """Answers to the deliveries `first` to `last`; with `multiple`, to all up to `last` (0: to all)."""

    channel: int
    first: int
    last: int
    multiple: bool
    kind: int  # ACK, DROP, REQUEUE


class Method(NamedTuple):
    """Any other method."""

    channel: int
    payload: bytes


class Refused(NamedTuple):
    """The peer broke a rule: the connection has to be closed, or only this channel."""

    channel: int
    error: AmqpError


class Publishes:
    """Messages published one after the other on one channel to the same place.

    They lie in `data`, which is the connection's buffer until `keep` was called.
    """

    __slots__ = (
        "_at", "_gap", "_seen", "_seen_at", "bytes", "channel", "count", "data", "immediate", "mandatory",
        "present", "route",
    )  # fmt: skip

    def __init__(self, channel: int, frame: bytes, data: bytearray, at: int, gap: int) -> None:
        self.channel = channel
        # Short strings of exchange and routing key: what the record's header `route` holds.
        self.route = frame[_ROUTE_AT:-2]
        bits = frame[len(frame) - 2]
        self.mandatory = bits & 1 != 0
        self.immediate = bits & 2 != 0
        self.count = 0
        self.bytes = 0  # of bodies and properties
        self.present = 0  # flags of all properties that any of them has
        self.data = data
        self._at = at  # of the first header frame
        self._gap = gap  # between the end of a message and the next one's header frame
        self._seen = 0  # the message asked for last, and where it is
        self._seen_at = at

    def __len__(self) -> int:
        return self.count

    @property
    def plain(self) -> bool:
        """No message has a priority, an expiration or a table of headers."""
        return not self.present & _LOOK

    @property
    def exchange(self) -> str:
        return _text(self.route[1 : 1 + self.route[0]])

    @property
    def key(self) -> str:
        return _text(self.route[2 + self.route[0] :])

    def properties(self, index: int) -> bytes:
        at = self._find(index)
        size, _body_size = _PLACE.unpack_from(self.data, at)
        return bytes(self.data[at + _PROPERTIES_AT : at + 7 + size])

    def body(self, index: int) -> bytes:
        at = self._find(index)
        size, body_size = _PLACE.unpack_from(self.data, at)
        start = at + size + _FRAME_BYTES + 7
        return bytes(self.data[start : start + body_size])

    def body_size(self, index: int) -> int:
        return _u64(self.data, self._find(index) + 11)

    def keep(self) -> None:
        """Copy the messages out of the connection's buffer, which may be used anew then."""
        if self._gap == 0:
            return  # put together aside: nobody else has it
        end = self._end(self._find(self.count - 1))
        self.data = self.data[self._at : end]
        self._seen, self._seen_at, self._at = 0, 0, 0

    def _find(self, index: int) -> int:
        """Where the header frame of a message is; quick if they are asked for in order."""
        if index < 0 or index >= self.count:
            raise IndexError(index)
        if index < self._seen:
            self._seen, self._seen_at = 0, self._at
        while self._seen < index:
            self._seen_at = self._end(self._seen_at) + self._gap
            self._seen += 1
        return self._seen_at

    def _end(self, at: int) -> int:
        size = _u32(self.data, at + 3)
        body_size = _u64(self.data, at + 11)
        return at + size + _FRAME_BYTES + (body_size + _FRAME_BYTES if body_size else 0)


class _Content:
    """A message whose frames have not all come, or not side by side: copied here as they come."""

    __slots__ = ("data", "flags", "frame", "left", "refused")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame  # of the publish method
        self.data = bytearray()  # header frame and body, in the shape they have side by side
        self.flags = 0
        self.left = -1  # bytes of the body still to come; -1: the header has not come
        self.refused = False  # too large: what comes of it is dropped


class Scanner:
    """What one connection sends, as events. Limits may be changed between two scans.

    frame_max       largest frame, all of its bytes counted
    channel_max     highest channel number
    max_body_bytes  largest body of a message
    """

    __slots__ = (
        "_broken", "_contents", "_flags", "_needed", "_size", "channel_max", "frame_max", "heartbeats",
        "held_bytes", "max_body_bytes",
    )  # fmt: skip

    def __init__(self, frame_max: int, channel_max: int, max_body_bytes: int) -> None:
        self.frame_max = frame_max
        self.channel_max = channel_max
        self.max_body_bytes = max_body_bytes
        self.heartbeats = 0  # seen so far
        self.held_bytes = 0  # of messages that are not complete
        self._contents: dict[int, _Content] = {}
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
                self._contents.clear()
                self.held_bytes = 0
        events.append(self._broken)
        return end, events

    def forget(self, channel: int) -> None:
        """The channel was closed: what is missing of its message will not come."""
        content = self._contents.pop(channel, None)
        if content is not None:
            self.held_bytes -= len(content.data)

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
                if self._contents and channel in self._contents:
                    self._interrupt(channel, index)
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
                self._content_frame(buffer, at, stop, events)
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

    def _interrupt(self, channel: int, index: int) -> None:
        """A method where more of a message is expected: only the end of the channel may come there."""
        if index not in (_CHANNEL_CLOSE, _CHANNEL_CLOSE_OK):
            text = f"a method on channel {channel} where content was expected"
            raise AmqpError(505, text, index >> 16, index & 0xFFFF)
        self.forget(channel)

    def _publishes(self, buffer: bytearray, at: int, end: int, events: list[Event]) -> int:
        """This publish and all that equal it; returns where they end, `at` if nothing could be used."""
        channel = _u16(buffer, at + 1)
        size = _u32(buffer, at + 3) + _FRAME_BYTES
        frame = bytes(buffer[at : at + size])
        _check_publish(channel, frame)
        run = _NO_RUN
        while True:
            header = at + size
            after = self._content(buffer, header, end, channel)
            if after < 0:
                break
            if (self._flags ^ run.present) & _LOOK or run.count == 0:
                run = Publishes(channel, frame, buffer, header, size)
                events.append(run)
            run.count += 1
            run.present |= self._flags
            run.bytes += self._size
            at = after
            if end - at < size or not _equal(buffer, at, frame, size):
                return at
        if after == _LATER and self._needed - at <= self.frame_max:
            return at
        self._contents[channel] = _Content(frame)
        return at + size

    def _content(self, buffer: bytearray, at: int, end: int, channel: int) -> int:
        """Where the message ends whose header frame is at `at`, if all of it lies here in one piece."""
        if end - at < _SMALLEST_HEADER:
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
            if after > end:
                self._needed = after
                return _LATER
            if _COMPILED:
                kind, its_channel, part = buffer[stop], _u16(buffer, stop + 1), _u32(buffer, stop + 3)
            else:
                kind, its_channel, part = _HEAD.unpack_from(buffer, stop)
            if kind != _BODY or its_channel != channel or part != body_size or buffer[after - 1] != _END:
                return _ASIDE
        self._flags = flags
        self._size = size - _HEADER_FIXED + body_size
        return after

    def _content_frame(self, buffer: bytearray, at: int, stop: int, events: list[Event]) -> None:
        """A header or body frame that does not lie behind its publish."""
        channel = _u16(buffer, at + 1)
        content = self._contents.get(channel)
        is_body = buffer[at] == _BODY
        if content is None or is_body != (content.left >= 0):
            what = "body" if is_body else "header"
            raise AmqpError(505, f"a content {what} on channel {channel} where none was expected", _BASIC)
        if is_body:
            size = stop - at - _FRAME_BYTES
            if size > content.left:
                raise AmqpError(501, f"{size} bytes of a body where {content.left} are missing", _BASIC)
            content.left -= size
            if not content.refused:
                self._hold(content, buffer[at + 7 : stop - 1])
        else:
            self._begin(content, buffer[at:stop])
            if content.refused:
                text = f"message size {content.left} is larger than configured max size {self.max_body_bytes}"
                events.append(Refused(channel, AmqpError(406, text, _BASIC, 40)))
        if content.left == 0:
            self.forget(channel)
            if not content.refused:
                events.append(_put_together(channel, content))

    def _begin(self, content: _Content, frame: bytearray) -> None:
        size = len(frame) - _FRAME_BYTES
        if size < _SMALLEST_SIZE:
            raise AmqpError(501, f"a content header of {size} bytes", _BASIC)
        _kind, _channel, _size, class_id, weight, body_size, flags = _HEADER.unpack_from(frame)
        if class_id != _BASIC:
            raise AmqpError(505, f"a content header of class {class_id}, not {_BASIC}", _BASIC)
        if weight != 0:
            raise AmqpError(501, f"a content weight of {weight}", _BASIC)
        if not _sound(frame, _FIELDS_AT, size + 7, flags):
            raise AmqpError(502, "content properties that are cut short or not known", _BASIC)
        content.flags = flags
        content.left = body_size
        content.refused = body_size > self.max_body_bytes
        if not content.refused:
            self._hold(content, frame)
            if body_size:
                self._hold(content, bytes(7))  # as much as the head of one body frame

    def _hold(self, content: _Content, part: bytes | bytearray) -> None:
        # Many channels may each have begun a large message.
        if self.held_bytes + len(part) > 2 * self.max_body_bytes + self.frame_max:
            raise AmqpError(506, f"{self.held_bytes} bytes in messages that are not complete", _BASIC)
        self.held_bytes += len(part)
        content.data += part


def _put_together(channel: int, content: _Content) -> Publishes:
    run = Publishes(channel, content.frame, content.data, 0, 0)
    run.count = 1
    run.present = content.flags
    run.bytes = run.body_size(0) + _u32(content.data, 3) - _HEADER_FIXED
    return run


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
    _kind, channel, size, index = _HEAD_METHOD.unpack_from(buffer, at)
    if size != _ANSWER_BYTES - _FRAME_BYTES:
        raise AmqpError(502, f"an ack, nack or reject of {size} bytes", _BASIC, index & 0xFFFF)
    if channel == 0:
        raise AmqpError(504, "an ack, nack or reject on channel 0", _BASIC, index & 0xFFFF)
    first, bits = _u64(buffer, at + 11), buffer[at + 19]
    last = first
    multiple = index != _REJECT and bits & 1 != 0
    if index == _ACK:
        kind = ACK
    else:
        kind = REQUEUE if bits & (1 if index == _REJECT else 2) else DROP
    start = at
    at += _ANSWER_BYTES
    if not multiple:
        while end - at >= _ANSWER_BYTES and _follows(buffer, at, start, last + 1):
            last += 1
            at += _ANSWER_BYTES
    events.append(Acks(channel, first, last, multiple, kind))
    return at


def _follows(buffer: bytearray, at: int, start: int, tag: int) -> bool:
    """Whether the frame at `at` equals that at `start` but for its tag."""
    return (
        buffer[at : at + 11] == buffer[start : start + 11]
        and _u64(buffer, at + 11) == tag
        and buffer[at + 19] == buffer[start + 19]
        and buffer[at + 20] == _END
    )


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


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise AmqpError(502, f"a name that is not utf-8: {raw!r}", _BASIC, 40) from None


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
    return _u32(data, at) << 32 | _u32(data, at + 4)


# --- records ---------------------------------------------------------------------------------------------


def encode_records(out: bytearray, first_index: int, publishes: Publishes, i: int, j: int) -> None:
    """Append messages i to j as records numbered from `first_index`, each with the headers route and amqp."""
    if i >= j:
        return
    route = publishes.route
    key = route[2 + route[0] :]
    before = _varint(len(key)) + key
    behind = _ROUTE_HEADER + _varint(len(route)) + route + _AMQP_HEADER
    at = publishes._find(i)
    publishes._find(j - 1)  # that there are so many
    if _COMPILED:
        _write_records(out, first_index, publishes.data, at, publishes._gap, j - i, before, behind)
        return
    data, gap = publishes.data, publishes._gap
    place, varint = _PLACE.unpack_from, _varint
    for index in range(first_index, first_index + j - i):
        size, body_size = place(data, at)
        properties_at = at + _PROPERTIES_AT
        at += size + _FRAME_BYTES
        properties = data[properties_at : at - 1]
        body_at = at + 7
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
    """The compiled way: room for all records first, then each written where it belongs."""
    fixed = 2 + len(before) + len(behind)
    start, total = at, 0
    for number in range(count):
        properties_size, body_size = _u32(data, at + 3) - _HEADER_FIXED, _u64(data, at + 11)
        size = fixed + _varint_size(index + number) + _varint_size(body_size) + body_size
        size += _varint_size(properties_size) + properties_size
        total += size + _varint_size(size)
        at += properties_size + _HEADER_FIXED + _FRAME_BYTES + gap
        if body_size:
            at += body_size + _FRAME_BYTES
    to = len(out)
    out += bytes(total)
    at = start
    for number in range(count):
        properties_size, body_size = _u32(data, at + 3) - _HEADER_FIXED, _u64(data, at + 11)
        size = fixed + _varint_size(index + number) + _varint_size(body_size) + body_size
        size += _varint_size(properties_size) + properties_size
        to = _put_varint(out, to, size) + 2  # attributes and timestamp delta are 0
        to = _put_varint(out, to, index + number)
        to = _put(out, to, before, 0, len(before))
        to = _put_varint(out, to, body_size)
        properties_at = at + _PROPERTIES_AT
        at = properties_at + properties_size + 1
        if body_size:
            to = _put_from(out, to, data, at + 7, body_size)
            at += body_size + _FRAME_BYTES
        to = _put(out, to, behind, 0, len(behind))
        to = _put_varint(out, to, properties_size)
        to = _put_from(out, to, data, properties_at, properties_size)
        at += gap


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


def _put(out: bytearray, to: int, part: bytes, start: int, size: int) -> int:
    target, source = out, part
    for index in range(size):
        target[to + index] = source[start + index]
    return to + size


def _put_from(out: bytearray, to: int, part: bytearray, start: int, size: int) -> int:
    target, source = out, part
    for index in range(size):
        target[to + index] = source[start + index]
    return to + size


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


_ONE_BYTE = tuple(bytes((value,)) for value in range(128))
_ROUTE_HEADER = b"\x04\x0aroute"  # two headers, the first of them
_AMQP_HEADER = b"\x08amqp"
Event = Publishes | Acks | Method | Refused
_NO_RUN = Publishes(0, bytes(_SMALLEST_PUBLISH), bytearray(), 0, 0)
