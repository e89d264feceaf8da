"""What a connection's bytes say, by the run. Compiled where possible; types are in events.pxd."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from mainstem.wire.amqp.errors import AmqpError

# Kinds of answers to deliveries.
ACK = 1
DROP = 2  # rejected or nacked, not to be queued again
REQUEUE = 3  # nacked, to be queued again: given back as it was
FAIL = 4  # rejected, to be queued again: a delivery that failed

# Property flags that a broker has to look at, message by message: headers, priority, expiration.
LOOK = 0x2000 | 0x0800 | 0x0100

_PLACE = Struct(">3xI4xQ")  # of a header frame: size, body size
_FRAME_BYTES = 8  # around a payload
_HEAD_BYTES = 7  # of them before it
_ROUTE_AT = 13  # in a publish frame
_PROPERTIES_AT = 19  # in a header frame
_LOOK = LOOK


class Acks(NamedTuple):
    """Answers to the deliveries `first` to `last`; with `multiple`, to all up to `last` (0: to all)."""

    channel: int
    first: int
    last: int
    multiple: bool
    kind: int  # ACK, DROP, REQUEUE, FAIL


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

    They lie in `data`, the connection's buffer, which nobody writes to again while it is in use: a header
    frame and, unless the body is empty, one body frame each, with `gap` bytes before the next header frame.
    """

    __slots__ = (
        "_at",
        "_seen",
        "_seen_at",
        "bytes",
        "channel",
        "count",
        "data",
        "gap",
        "immediate",
        "mandatory",
        "present",
        "route",
    )

    def __init__(
        self,
        channel: int,
        frame: bytes,
        data: bytearray,
        at: int,
        gap: int,
        count: int,
        size: int,
        present: int,
    ) -> None:
        """`frame` is the publish method; the first message lies at `at`."""
        self.channel = channel
        # Short strings of exchange and routing key: what the record's header `route` holds.
        self.route = frame[_ROUTE_AT : len(frame) - 2]
        bits = frame[len(frame) - 2]
        self.mandatory = bits & 1 != 0
        self.immediate = bits & 2 != 0
        self.count = count
        self.bytes = size  # of bodies and properties
        self.present = present  # flags of all properties that any of them has
        self.data = data
        self.gap = gap
        self._at = at
        self._seen = 0  # the message asked for last, and where it is
        self._seen_at = at

    def __len__(self) -> int:
        return self.count

    @property
    def plain(self) -> bool:
        """No message has a priority, an expiration or a table of headers."""
        return self.present & _LOOK == 0

    @property
    def exchange(self) -> str:
        return _text(self.route[1 : 1 + self.route[0]])

    @property
    def key(self) -> str:
        return _text(self.route[2 + self.route[0] :])

    def properties(self, index: int) -> bytes:
        at = self.find(index)
        size, _body_size = _PLACE.unpack_from(self.data, at)
        return bytes(self.data[at + _PROPERTIES_AT : at + _HEAD_BYTES + size])

    def body(self, index: int) -> bytes:
        at = self.find(index)
        size, body_size = _PLACE.unpack_from(self.data, at)
        start = at + size + _FRAME_BYTES + _HEAD_BYTES
        return bytes(self.data[start : start + body_size])

    def body_size(self, index: int) -> int:
        at = self.find(index)
        _size, body_size = _PLACE.unpack_from(self.data, at)
        return int(body_size)

    def find(self, index: int) -> int:
        """Where the header frame of a message is; quick if they are asked for in order."""
        if index < 0 or index >= self.count:
            raise IndexError(f"message {index} of {self.count}")
        if index < self._seen:
            self._seen = 0
            self._seen_at = self._at
        while self._seen < index:
            self._seen_at = self._end(self._seen_at) + self.gap
            self._seen += 1
        return self._seen_at

    def _end(self, at: int) -> int:
        size, body_size = _PLACE.unpack_from(self.data, at)
        at += size + _FRAME_BYTES
        if body_size:
            at += body_size + _FRAME_BYTES
        return at


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise AmqpError(502, f"a name that is not utf-8: {raw!r}", 60, 40) from None


Event = Publishes | Acks | Method | Refused
