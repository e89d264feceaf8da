"""The properties of a message as they are on the wire, read and changed field by field.

    flags u16   one bit for each property there is, highest first, in the order of `FIELDS`
    fields      of those properties, in that order: shortstr, but headers (a table), delivery mode and
                priority (u8) and timestamp (u64, seconds)

Properties travel from publisher to consumer as they came; only what a broker must know is read, and only
what it must say is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct
from typing import NamedTuple

from pamqp import commands

from mainstem.model.labels import Labels
from mainstem.wire.amqp import tables
from mainstem.wire.amqp.errors import AmqpError
from mainstem.wire.amqp.tables import Value

CONTENT_TYPE = 0x8000
CONTENT_ENCODING = 0x4000
HEADERS = 0x2000
DELIVERY_MODE = 0x1000
PRIORITY = 0x0800
CORRELATION_ID = 0x0400
REPLY_TO = 0x0200
EXPIRATION = 0x0100
MESSAGE_ID = 0x0080
TIMESTAMP = 0x0040
TYPE = 0x0020
USER_ID = 0x0010
APP_ID = 0x0008
CLUSTER_ID = 0x0004
FIELDS = tuple(1 << bit for bit in range(15, 1, -1))

_FLAGS = Struct(">H")
_U32 = Struct(">I")
_UNKNOWN = 0x0003
_FIXED = {DELIVERY_MODE: 1, PRIORITY: 1, TIMESTAMP: 8}
# RabbitMQ takes no longer time to live than 50 years; more digits are refused before they are counted.
MAX_EXPIRATION_MS = 50 * 365 * 86_400_000
_MAX_DIGITS = 15
_BASIC, _PUBLISH = 60, 40


class Wanted(NamedTuple):
    """What a broker looks at."""

    priority: int | None
    expiration_ms: int | None
    delivery_mode: int | None
    reply_to: str | None
    user_id: str | None
    delay_ms: int | None  # header x-delay
    cc: tuple[str, ...]
    bcc: tuple[str, ...]


def fields(raw: bytes) -> dict[int, bytes]:
    """Each property as its flag and the bytes that follow, its size in front if it has one."""
    if len(raw) < _FLAGS.size:
        raise tables.broken("properties without flags")
    flags = _FLAGS.unpack_from(raw)[0]
    if flags & _UNKNOWN:
        raise tables.broken(f"unknown property flags {flags:#06x}")
    at, end = _FLAGS.size, len(raw)
    found: dict[int, bytes] = {}
    for flag in FIELDS:
        if not flags & flag:
            continue
        size = _FIXED.get(flag, 0)
        if flag == HEADERS:
            size = 4 + (_U32.unpack_from(raw, at)[0] if end - at >= 4 else 0)
        elif not size:
            size = 1 + (raw[at] if at < end else 0)
        if size > end - at:
            raise tables.broken("properties that are cut short")
        found[flag] = raw[at : at + size]
        at += size
    if at != end:
        raise tables.broken(f"{end - at} bytes behind the properties")
    return found


def join(found: Mapping[int, bytes]) -> bytes:
    """Properties on the wire again."""
    parts = [found[flag] for flag in FIELDS if flag in found]
    return _FLAGS.pack(sum(found)) + b"".join(parts)


def read(raw: bytes) -> Wanted:
    """AmqpError 502 if the properties are broken, 406 if one of them makes no sense."""
    found = fields(raw)
    delay_ms: int | None = None
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    if HEADERS in found:
        for name, value in tables.entries(found[HEADERS]):
            if name == b"x-delay":
                delay_ms = _delay(tables.decode_value(value))
            elif name == b"CC":
                cc = _keys("CC", tables.decode_value(value))
            elif name == b"BCC":
                bcc = _keys("BCC", tables.decode_value(value))
    return Wanted(
        priority=found[PRIORITY][0] if PRIORITY in found else None,
        expiration_ms=_expiration(found[EXPIRATION][1:]) if EXPIRATION in found else None,
        delivery_mode=found[DELIVERY_MODE][0] if DELIVERY_MODE in found else None,
        reply_to=_text(found, REPLY_TO),
        user_id=_text(found, USER_ID),
        delay_ms=delay_ms,
        cc=cc,
        bcc=bcc,
    )


def priority(raw: bytes) -> int:
    """0 if it has none."""
    found = fields(raw).get(PRIORITY)
    return found[0] if found else 0


def headers(raw: bytes) -> dict[str, object]:
    """The table of headers, decoded; empty if there is none."""
    table = fields(raw).get(HEADERS)
    return {} if table is None else tables.decode(table)


def labels(raw: bytes) -> Labels:
    """The table of headers, decoded, and the properties that an exchange may go by, as text."""
    found = fields(raw)
    texts = {
        name: found[flag][1:].decode("utf-8", "surrogateescape")
        for name, flag in (("correlation_id", CORRELATION_ID), ("message_id", MESSAGE_ID))
        if flag in found
    }
    if TIMESTAMP in found:
        texts["timestamp"] = str(int.from_bytes(found[TIMESTAMP], "big"))
    return Labels(tables.decode(found[HEADERS]) if HEADERS in found else {}, texts)


def patch(
    raw: bytes,
    set_headers: Mapping[str, Value] | None = None,
    drop_headers: Collection[str] = (),
    change: Mapping[int, bytes | None] | None = None,
) -> bytes:
    """With these headers set or gone, and these properties (a short string without its size; None: gone).

    What is not named keeps its bytes. A header that is set goes to the end of the table.
    """
    found = fields(raw)
    if set_headers or drop_headers:
        entries = tables.entries(found[HEADERS]) if HEADERS in found else []
        named = {name.encode(): tables.encode_value(value) for name, value in (set_headers or {}).items()}
        gone = {name.encode() for name in drop_headers}
        entries = [entry for entry in entries if entry[0] not in named and entry[0] not in gone]
        found[HEADERS] = tables.join([*entries, *named.items()])
    for flag, value in (change or {}).items():
        if value is None:
            found.pop(flag, None)
        elif flag in _FIXED:
            found[flag] = value
        else:
            found[flag] = bytes((len(value),)) + value
    return join(found)


def without_bcc(raw: bytes) -> bytes:
    return patch(raw, drop_headers=("BCC",))


def with_reply_to(raw: bytes, reply_to: str) -> bytes:
    return patch(raw, change={REPLY_TO: reply_to.encode()})


def encode(properties: commands.Basic.Properties) -> bytes:
    """pamqp's properties on the wire."""
    return properties.marshal()


def decode(raw: bytes) -> commands.Basic.Properties:
    """As pamqp has them. AmqpError 502 if they are broken."""
    found = fields(raw)
    if HEADERS in found:
        tables.entries(found[HEADERS])
    properties = commands.Basic.Properties()
    try:
        properties.unmarshal(sum(found), raw[_FLAGS.size :])
    except (ValueError, OverflowError, OSError, ArithmeticError) as error:
        raise tables.broken(f"properties with a value that cannot be: {error}") from None
    return properties


def _text(found: Mapping[int, bytes], flag: int) -> str | None:
    raw = found.get(flag)
    if raw is None:
        return None
    try:
        return raw[1:].decode()
    except UnicodeDecodeError:
        raise tables.broken(f"a property that is not utf-8: {raw[1:]!r}") from None


def _refused(text: str) -> AmqpError:
    return AmqpError(406, text, _BASIC, _PUBLISH)


def _expiration(raw: bytes) -> int:
    if not raw.isdigit() or len(raw) > _MAX_DIGITS or int(raw) > MAX_EXPIRATION_MS:
        raise _refused(f"invalid expiration {raw.decode(errors='replace')!r}")
    return int(raw)


def _delay(value: object) -> int | None:
    """A delay that is no number is none; RabbitMQ's plugin thinks so too."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    if isinstance(value, str):
        if not value.isascii() or not value.isdigit() or len(value) > _MAX_DIGITS:
            return None
        value = int(value)
    return value if value > 0 else None


def _keys(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise _refused(f"the header {name} must be a list of strings")
    return tuple(value)
