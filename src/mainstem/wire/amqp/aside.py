"""Messages whose frames have not all come, or not side by side: put together here as they come."""

from __future__ import annotations

from struct import Struct

from mainstem.wire.amqp import properties
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.events import Event, Publishes, Refused

_HEADER = Struct(">HHQH")  # class, weight, body size, flags
_BODY = 3
_HEAD_BYTES, _END_BYTES = 7, 1  # of a frame
_PROPERTIES_AT = 12  # in the payload of a header frame
_MOST_BODY_BYTES = 1 << 30  # whatever the limit: sizes in a batch of records have 32 bits
_CHANNEL_CLOSE, _CHANNEL_CLOSE_OK = 0x00140028, 0x00140029
_BASIC, _PUBLISH = 60, 40
_NO_HEADER = f"expected content header for class {_BASIC}, got non content header frame instead"
_NO_BODY = "expected content body, got non content body frame instead"


class _Content:
    __slots__ = ("data", "flags", "frame", "left", "refused", "size")

    def __init__(self, frame: bytes) -> None:
        self.frame = frame  # of the publish method
        self.data = bytearray()  # header frame and body, in the shape they have side by side
        self.flags = 0
        self.size = 0  # of properties and body
        self.left = -1  # bytes of the body still to come; -1: the header has not come
        self.refused = False  # too large: what comes of it is dropped


class Aside:
    """At most one message for each channel of a connection."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._contents: dict[int, _Content] = {}

    def __bool__(self) -> bool:
        return bool(self._contents)

    def begin(self, channel: int, frame: bytes) -> None:
        """A publish whose content is to come."""
        self._contents[channel] = _Content(frame)

    def method(self, channel: int, index: int) -> None:
        """A method where more of a message may be expected: only the end of the channel may come there."""
        content = self._contents.get(channel)
        if content is None:
            return
        if index not in (_CHANNEL_CLOSE, _CHANNEL_CLOSE_OK):
            raise AmqpError(505, _NO_HEADER if content.left < 0 else _NO_BODY, _BASIC, _PUBLISH)
        self.forget(channel)

    def forget(self, channel: int) -> None:
        """The channel was closed: what is missing of its message will not come."""
        content = self._contents.pop(channel, None)
        if content is not None:
            self.held_bytes -= len(content.data)

    def clear(self) -> None:
        self._contents.clear()
        self.held_bytes = 0

    def content(self, channel: int, frame: bytearray, max_body_bytes: int, frame_max: int) -> Event | None:
        """A header or body frame; the message if it is complete now, or its refusal.

        Many channels may each have begun a large message: together they are held to the size of two.
        """
        content = self._contents.get(channel)
        is_body = frame[0] == _BODY
        if content is None:
            raise AmqpError(505, "expected method frame, got non method frame instead")
        if is_body != (content.left >= 0):
            raise AmqpError(505, _NO_HEADER if is_body else _NO_BODY, _BASIC, _PUBLISH)
        size = len(frame) - _HEAD_BYTES - _END_BYTES
        if is_body:
            if size > content.left:
                raise AmqpError(501, f"{size} bytes of a body where {content.left} are missing", _BASIC)
            content.left -= size
            part = frame[_HEAD_BYTES:-_END_BYTES]
        else:
            _read_header(content, bytes(frame[_HEAD_BYTES:-_END_BYTES]))
            most = min(max_body_bytes, _MOST_BODY_BYTES)
            if content.left > most:
                content.refused = True
                text = f"message size {content.left} is larger than configured max size {most}"
                return Refused(channel, AmqpError(406, text, _BASIC, _PUBLISH))
            part = frame + bytes(_HEAD_BYTES)  # as much as the head of one body frame
        if not content.refused:
            if self.held_bytes + len(part) > 2 * max_body_bytes + frame_max:
                raise AmqpError(506, f"{self.held_bytes} bytes in messages that are not complete", _BASIC)
            self.held_bytes += len(part)
            content.data += part
        if content.left:
            return None
        self.forget(channel)
        if content.refused:
            return None
        return Publishes(channel, content.frame, content.data, 0, 0, 1, content.size, content.flags)


def _read_header(content: _Content, payload: bytes) -> None:
    if len(payload) < _HEADER.size:
        raise AmqpError(501, f"a content header of {len(payload)} bytes", _BASIC)
    class_id, weight, body_size, flags = _HEADER.unpack_from(payload)
    if class_id != _BASIC:
        text = f"expected content header for class {_BASIC}, got one for class {class_id} instead"
        raise AmqpError(505, text, _BASIC, _PUBLISH)
    if weight != 0:
        raise AmqpError(501, f"a content weight of {weight}", _BASIC)
    properties.fields(payload[_PROPERTIES_AT:])
    content.flags = flags
    content.left = body_size
    content.size = len(payload) - _PROPERTIES_AT + body_size
