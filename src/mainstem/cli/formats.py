"""How messages are printed: as text, JSON, hex, or by a template.

text      the value, a line each (control characters spelled out on a terminal)
json      an object a line; what is not UTF-8 stands as base64 under key_base64, value_base64
hex       one line about the message, then its value as a hex dump
template  anything with a {name} in it: {topic} {partition} {offset} {time} {timestamp_ms} {key} {value}
          {headers}; \\n and \\t stand for what they usually do
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

from mainstem.cli.output import printable
from mainstem.model.errors import InvalidRequest
from mainstem.model.records import Record

Format = Callable[[str, int, Record], bytes]
NAMES = ("text", "json", "hex")
HEX_WIDTH = 16
_FIELD = re.compile(r"\{(\w+)\}")
_FIELDS = ("topic", "partition", "offset", "time", "timestamp_ms", "key", "value", "headers")


def make_format(wish: str, *, key_separator: str | None = None, terminal: bool = False) -> Format:
    """A function of topic, partition and record to the bytes to print, line end included."""
    if wish == "text":
        return _text(key_separator, terminal)
    if wish == "json":
        return lambda topic, partition, record: _line(
            json.dumps(as_object(topic, partition, record), ensure_ascii=False)
        )
    if wish == "hex":
        return _hex
    if _FIELD.search(wish):
        return _template(wish, terminal)
    raise InvalidRequest(
        f"there is no format {wish!r}: use {', '.join(NAMES)}, or a template like '{{key}}: {{value}}'"
    )


def as_object(topic: str, partition: int, record: Record) -> dict[str, object]:
    headers = [{"name": name, **_either("value", value)} for name, value in record.headers]
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "time": time_text(record.timestamp_ms),
        **_either("key", record.key),
        **_either("value", record.value),
        "headers": headers,
    }


def time_text(timestamp_ms: int) -> str:
    """UTC; a producer may write any number, also one that is no time."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _either(name: str, data: bytes | None) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _line(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape") + b"\n"


def _text(key_separator: str | None, terminal: bool) -> Format:
    def show(_topic: str, _partition: int, record: Record) -> bytes:
        data = record.value or b""
        if key_separator is not None:
            data = (record.key or b"") + key_separator.encode() + data
        return (printable(data.decode("utf-8", "replace")).encode() if terminal else data) + b"\n"

    return show


def _hex(topic: str, partition: int, record: Record) -> bytes:
    lines = [
        f"{topic} partition {partition} offset {record.offset} {time_text(record.timestamp_ms)} "
        f"key {_short(record.key)}"
    ]
    value = record.value or b""
    for at in range(0, len(value), HEX_WIDTH):
        part = value[at : at + HEX_WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{HEX_WIDTH * 3}} {letters}")
    return _line("\n".join(lines))


def _short(data: bytes | None) -> str:
    return "none" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def _template(wish: str, terminal: bool) -> Format:
    text = wish.replace("\\n", "\n").replace("\\t", "\t")
    if unknown := [name for name in _FIELD.findall(text) if name not in _FIELDS]:
        raise InvalidRequest(f"a template has no {{{unknown[0]}}}; it may use {', '.join(_FIELDS)}")

    def show(topic: str, partition: int, record: Record) -> bytes:
        values: dict[str, object] = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "time": time_text(record.timestamp_ms),
            "timestamp_ms": record.timestamp_ms,
            "key": _decoded(record.key),
            "value": _decoded(record.value),
            "headers": ",".join(f"{name}={_decoded(value)}" for name, value in record.headers),
        }
        # A value that looks like a template is not one: substituted in one pass.
        filled = _FIELD.sub(lambda found: _shown(values[found[1]], terminal), text)
        return _line(filled)

    return show


def _decoded(data: bytes | None) -> str:
    return "" if data is None else data.decode("utf-8", "surrogateescape")


def _shown(value: object, terminal: bool) -> str:
    return printable(str(value)) if terminal else str(value)
