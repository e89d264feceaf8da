"""One table between AMQP properties and Kafka headers, for messages that cross from one to the other.

    AMQP property                    Kafka header
    content_type                     content-type
    content_encoding                 content-encoding
    priority                         priority, in digits
    correlation_id                   correlation-id
    reply_to                         reply-to
    expiration                       expiration
    message_id                       message-id
    timestamp                        timestamp, seconds in digits; from Kafka without it the record's time
    type                             type
    user_id                          user-id; to Kafka only, since nobody has checked it there
    app_id                           app-id
    delivery_mode, cluster_id        none; from Kafka delivery_mode is 2, for the record is on disk
    entry of `headers`               a header of the same name; `header.` is put before a name that has
                                     another meaning here (those above, those of the broker, `header.*`)
      string, bytes                  as it is
      number, boolean                in digits; true, false
      time                           seconds in digits
      table, array                   JSON
      void                           null
    routing key                      key of the record

From Kafka every header becomes a string, null becomes void, and of headers with the same name the last one
counts. Left out is what cannot be said in AMQP (a name of more than 255 bytes, headers beyond the size of a
frame) and, where the broker has written headers of its own (`route`), those. A message read by its own
protocol needs none of this: its own form is kept beside the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from struct import Struct

from mainstem.model.record import Headers
from mainstem.wire.amqp import properties, tables

# Headers that the broker itself writes.
ROUTE, AMQP, EXPIRES, DEAD = "route", "amqp", "expires", "dead"

_SHORT_STRINGS = {
    properties.CONTENT_TYPE: "content-type",
    properties.CONTENT_ENCODING: "content-encoding",
    properties.CORRELATION_ID: "correlation-id",
    properties.REPLY_TO: "reply-to",
    properties.EXPIRATION: "expiration",
    properties.MESSAGE_ID: "message-id",
    properties.TYPE: "type",
    properties.APP_ID: "app-id",
}
_FLAG_OF = {name: flag for flag, name in _SHORT_STRINGS.items()}
_PRIORITY, _TIMESTAMP, _USER_ID = "priority", "timestamp", "user-id"
_OURS = frozenset((ROUTE, AMQP, EXPIRES, DEAD, "keys", "since", "space"))
_TAKEN = frozenset((*_FLAG_OF, *_OURS, _PRIORITY, _TIMESTAMP, _USER_ID))
_ESCAPE = "header."
_U64 = Struct(">Q")
_MAX_SHORT_BYTES = 255
_MAX_DIGITS = 15
_PERSISTENT = b"\2"


def to_kafka(raw: bytes) -> Headers:
    """The headers that a Kafka client sees of a message with these properties, which were checked."""
    found = properties.fields(raw)
    made: list[tuple[str, bytes | None]] = []
    for flag in properties.FIELDS:
        value = found.get(flag)
        if value is None:
            continue
        if flag in _SHORT_STRINGS:
            made.append((_SHORT_STRINGS[flag], value[1:]))
        elif flag == properties.PRIORITY:
            made.append((_PRIORITY, b"%d" % value[0]))
        elif flag == properties.TIMESTAMP:
            made.append((_TIMESTAMP, b"%d" % _U64.unpack(value)[0]))
        elif flag == properties.USER_ID:
            made.append((_USER_ID, value[1:]))
    for name, of in properties.headers(raw).items():
        plain = name not in _TAKEN and not name.startswith(_ESCAPE)
        made.append((name if plain else _ESCAPE + name, _bytes(of)))
    return tuple(made)


def to_amqp(headers: Headers, timestamp_ms: int, max_bytes: int) -> bytes:
    """Properties, at most `max_bytes` of them, for a record that no AMQP client has written."""
    found = {properties.DELIVERY_MODE: _PERSISTENT}
    if timestamp_ms >= 0:
        found[properties.TIMESTAMP] = _U64.pack(timestamp_ms // 1000)
    entries: dict[bytes, bytes] = {}
    is_ours = any(name == ROUTE for name, _value in headers)  # else these names are somebody's own
    for name, value in headers:
        if (is_ours and name in _OURS) or _as_property(found, name, value):
            continue
        raw_name = name.removeprefix(_ESCAPE).encode(errors="replace")
        if len(raw_name) <= tables.MAX_NAME_BYTES:
            entries[raw_name] = tables.encode_value(value)
    room = max_bytes - len(properties.join(found)) - 4
    kept = []
    for entry in entries.items():
        room -= 1 + len(entry[0]) + len(entry[1])
        if room < 0:
            break
        kept.append(entry)
    if kept:
        found[properties.HEADERS] = tables.join(kept)
    return properties.join(found)


def route_of(key: bytes | None) -> bytes:
    """Where a record was sent that no AMQP client has written: the default exchange and its key."""
    if key is None or len(key) > _MAX_SHORT_BYTES or not _is_text(key):
        key = b""
    return b"\0" + bytes((len(key),)) + key


def _as_property(found: dict[int, bytes], name: str, value: bytes | None) -> bool:
    """Keep a header that is a property in AMQP; False if it is none, or cannot be one."""
    if value is None or len(value) > _MAX_SHORT_BYTES:
        return False
    if name in _FLAG_OF and _is_text(value):
        found[_FLAG_OF[name]] = bytes((len(value),)) + value
        return True
    if not value.isdigit() or len(value) > _MAX_DIGITS:
        return False
    if name == _PRIORITY and int(value) <= 255:
        found[properties.PRIORITY] = bytes((int(value),))
        return True
    if name == _TIMESTAMP:
        found[properties.TIMESTAMP] = _U64.pack(int(value))
        return True
    return False


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return value.encode() if isinstance(value, str) else json.dumps(_plain(value)).encode()


def _plain(value: object) -> object:
    """As JSON can say it."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    return value
