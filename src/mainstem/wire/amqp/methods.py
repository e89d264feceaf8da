"""Methods that are not worth a scan of their own: pamqp reads and writes them, behind guards.

A payload is walked through before pamqp sees it, so that what reaches it is whole, shallow and small. pamqp
is stricter than RabbitMQ about the names of queues when it makes a frame; `declare_ok` goes around that.
"""

from __future__ import annotations

from struct import Struct

from pamqp import base, commands
from pamqp import encode as pamqp_encode

from mainstem.wire.amqp import tables
from mainstem.wire.amqp.errors import AmqpError

PROTOCOL_HEADER = b"AMQP\0\0\x09\x01"
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"

_INDEX = Struct(">I")
_HEAD = Struct(">BHII")
_CONFIRM = Struct(">BHIIQBB")  # a whole basic.ack or basic.nack
_END = b"\xce"
_ACK, _NACK = 0x003C0050, 0x003C0078
_FIXED = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}


def decode(payload: bytes) -> base.Frame:
    """The method in the payload of a frame; AmqpError 502 if it is broken, 503 if there is none such."""
    if len(payload) < _INDEX.size:
        raise AmqpError(502, f"a method of {len(payload)} bytes")
    index = _INDEX.unpack_from(payload)[0]
    class_id, method_id = index >> 16, index & 0xFFFF
    kind: type[base.Frame] | None = commands.INDEX_MAPPING.get(index)
    if kind is None:
        raise AmqpError(503, f"unknown method {method_id} of class {class_id}", class_id, method_id)
    try:
        _check(kind, payload)
        frame = kind.__new__(kind)  # its constructor would warn of methods that are out of date
        frame.unmarshal(payload[_INDEX.size :])
    except AmqpError as error:
        raise AmqpError(502, f"{kind.name}: {error.text}", class_id, method_id) from None
    except (ValueError, OverflowError, OSError, ArithmeticError) as error:
        raise AmqpError(502, f"{kind.name}: {error}", class_id, method_id) from None
    return frame


def _check(kind: type[base.Frame], payload: bytes) -> None:
    """That the payload holds the method's arguments and not more."""
    at, end, bits = _INDEX.size, len(payload), 0
    for name in kind.attributes():
        argument = kind.amqp_type(name)
        if argument == "bit":
            if bits % 8 == 0:
                at += 1
            bits += 1
            continue
        bits = 0
        fixed = _FIXED.get(argument)
        if fixed is not None:
            at += fixed
        elif argument == "table":
            at = tables.check(payload, at)
        elif argument == "shortstr":
            at += 1 + (payload[at] if at < end else 0)
        else:
            at += 4 + (_INDEX.unpack_from(payload, at)[0] if end - at >= 4 else 0)
        if at > end:
            raise tables.broken(f"{name} is cut short")
    if at != end:
        raise tables.broken(f"{end - at} bytes too many" if at < end else "cut short")


def append(out: bytearray, channel: int, frame: base.Frame) -> None:
    """Append a whole frame."""
    payload = bytearray()
    bits = byte = 0
    for name in frame.attributes():
        argument, value = frame.amqp_type(name), getattr(frame, name)
        if argument == "bit":
            byte |= bool(value) << bits
            bits += 1
            continue
        if bits:
            payload.append(byte)
            bits = byte = 0
        payload += pamqp_encode.by_type(value, argument)
    if bits:
        payload.append(byte)
    out += _HEAD.pack(1, channel, _INDEX.size + len(payload), frame.index)
    out += payload
    out += _END


def declare_ok(queue: str, message_count: int, consumer_count: int) -> base.Frame:
    frame = commands.Queue.DeclareOk(None, message_count, consumer_count)
    frame.queue = queue
    return frame


def append_ack(out: bytearray, channel: int, delivery_tag: int, multiple: bool) -> None:
    """A confirm."""
    out += _CONFIRM.pack(1, channel, 13, _ACK, delivery_tag, multiple, 0xCE)


def append_nack(out: bytearray, channel: int, delivery_tag: int, multiple: bool) -> None:
    """A confirm of the other kind: these messages are not on disk."""
    out += _CONFIRM.pack(1, channel, 13, _NACK, delivery_tag, multiple, 0xCE)
