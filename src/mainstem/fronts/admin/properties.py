"""A message's properties and headers between AMQP's bytes and JSON. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from mainstem.model.errors import InvalidRequest
from mainstem.wire.amqp import properties as props
from mainstem.wire.amqp import tables

TEXTS = {
    "content_type": props.CONTENT_TYPE,
    "content_encoding": props.CONTENT_ENCODING,
    "correlation_id": props.CORRELATION_ID,
    "reply_to": props.REPLY_TO,
    "expiration": props.EXPIRATION,
    "message_id": props.MESSAGE_ID,
    "type": props.TYPE,
    "user_id": props.USER_ID,
    "app_id": props.APP_ID,
}
# Name, flag, size in bytes.
NUMBERS = {
    "delivery_mode": (props.DELIVERY_MODE, 1),
    "priority": (props.PRIORITY, 1),
    "timestamp": (props.TIMESTAMP, 8),
}
_MAX_TEXT_BYTES = 255
_MAX_DEPTH = 16
_PERSISTENT = 2


def encode(properties: Mapping[str, Any], headers: Mapping[str, Any]) -> bytes:
    """On the wire. InvalidRequest says which one makes no sense."""
    found: dict[int, bytes] = {}
    for name, value in {"delivery_mode": _PERSISTENT, **properties}.items():
        if name in TEXTS:
            found[TEXTS[name]] = _short(name, value)
        elif name in NUMBERS:
            flag, size = NUMBERS[name]
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 8 * size:
                raise InvalidRequest(f"property {name} must be a whole number of {size} bytes, not {value!r}")
            found[flag] = value.to_bytes(size, "big")
        else:
            known = ", ".join((*TEXTS, *NUMBERS))
            raise InvalidRequest(f"there is no property {name!r}; there are: {known}")
    if headers:
        found[props.HEADERS] = encode_headers(headers)
    return props.join(found)


def encode_headers(headers: Mapping[str, Any]) -> bytes:
    check_headers(headers)
    try:
        raw = tables.join([(name.encode(), tables.encode_value(value)) for name, value in headers.items()])
        tables.entries(raw)
    except (struct.error, UnicodeEncodeError):
        raise InvalidRequest("headers: a number of more than 64 bits, or a text that is none") from None
    return raw


def check_table(arguments: Mapping[str, Any]) -> None:
    """InvalidRequest for what no client could say, and the journal could not hold."""
    encode_headers(arguments)


def check_headers(headers: Mapping[str, Any], depth: int = 1) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidRequest(f"headers more than {_MAX_DEPTH} deep")
    for name, value in headers.items():
        if len(name.encode(errors="replace")) > tables.MAX_NAME_BYTES:
            raise InvalidRequest(f"a header's name has more than {tables.MAX_NAME_BYTES} bytes")
        each = value if isinstance(value, list) else [value]
        for one in each:
            if isinstance(one, Mapping):
                check_headers(one, depth + 1)
            elif isinstance(one, list):
                check_headers({name: one}, depth + 1)


def decode(raw: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Properties and headers, for people."""
    found = props.fields(raw)
    properties: dict[str, Any] = {}
    for name, flag in TEXTS.items():
        if flag in found:
            properties[name] = found[flag][1:].decode(errors="replace")
    for name, (flag, _) in NUMBERS.items():
        if flag in found:
            properties[name] = int.from_bytes(found[flag], "big")
    return properties, plain(props.headers(raw))


def _short(name: str, value: Any) -> bytes:
    if not isinstance(value, str):
        raise InvalidRequest(f"property {name} must be a text, not {value!r}")
    raw = value.encode(errors="replace")
    if len(raw) > _MAX_TEXT_BYTES:
        raise InvalidRequest(f"property {name} has more than {_MAX_TEXT_BYTES} bytes")
    return bytes((len(raw),)) + raw


def plain(value: Any) -> Any:
    """As JSON can say it: bytes as text, times as text, mappings and lists by their parts."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="replace")
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
