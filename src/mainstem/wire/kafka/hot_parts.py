"""What the hand-written readers and writers of `hot.py` are made of.

This file is plain Python that Cython also takes as it is.
"""

from __future__ import annotations

import struct

from mainstem.wire.kafka.primitives import (
    bad_length,
    longer_varint,
    put_varint,
    skip_tags,
    too_long,
    too_many,
)

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_INT16_PACK = struct.Struct(">h").pack
_INT32_PACK = struct.Struct(">i").pack


def put_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        put_varint(out, count + 1)
    else:
        out += _INT32_PACK(count)


def put_topic(out: bytearray, topic: str | bytes, flexible: bool) -> None:
    if isinstance(topic, bytes):
        out += topic
        return
    name = topic.encode()
    if flexible:
        put_varint(out, len(name) + 1)
    else:
        out += _INT16_PACK(len(name))
    out += name


def classic_count(buf: memoryview, pos: int, size: int, smallest: int) -> tuple[int, int]:
    (count,) = _INT32(buf, pos)
    pos += 4
    if count < 0:
        bad_length(count)
    if count > (size - pos) // smallest:
        too_many(count)
    return count, pos


def compact_count(buf: memoryview, pos: int, size: int, smallest: int) -> tuple[int, int]:
    count = buf[pos]
    pos += 1
    if count > 0x7F:
        count, pos = longer_varint(buf, pos, count)
    if count == 0:
        bad_length(-1)
    if count - 1 > (size - pos) // smallest:
        too_many(count - 1)
    return count - 1, pos


def classic_string(buf: memoryview, pos: int, size: int, nullable: bool) -> tuple[str | None, int]:
    (length,) = _INT16(buf, pos)
    pos += 2
    if length < 0:
        if length != -1 or not nullable:
            bad_length(length)
        return None, pos
    end = pos + length
    if end > size:
        too_long(length)
    return str(buf[pos:end], "utf-8"), end


def compact_string(buf: memoryview, pos: int, size: int, nullable: bool) -> tuple[str | None, int]:
    length = buf[pos]
    pos += 1
    if length > 0x7F:
        length, pos = longer_varint(buf, pos, length)
    if length == 0:
        if not nullable:
            bad_length(-1)
        return None, pos
    end = pos + length - 1
    if end > size:
        too_long(length - 1)
    return str(buf[pos:end], "utf-8"), end


def compact_name(buf: memoryview, pos: int, size: int) -> tuple[str, int]:
    name, pos = compact_string(buf, pos, size, False)
    return name or "", pos


def topic_id(buf: memoryview, pos: int) -> tuple[bytes, int]:
    """A short slice at the end of the buffer is noticed by what must follow."""
    return bytes(buf[pos : pos + 16]), pos + 16


def int32s(buf: memoryview, pos: int, count: int) -> list[int]:
    return list(struct.unpack_from(f">{count}i", buf, pos))


def after_tags(buf: memoryview, pos: int, size: int) -> int:
    count = buf[pos]
    pos += 1
    if count:
        if count > 0x7F:
            count, pos = longer_varint(buf, pos, count)
        return skip_tags(buf, pos, size, count)
    return pos
