"""The parts of Kafka's encoding that generated codecs, headers and the hot path share.

unsigned varint   7 bits per byte, lowest first, the high bit says "more follows"; at most 5 bytes
compact length    unsigned varint of length + 1; 0 is null
tagged fields     varint count, then per field: varint tag, varint size, that many bytes
"""

from __future__ import annotations

Buffer = bytes | bytearray | memoryview

# Elements that the arrays of one request may hold in all. An element of one byte becomes an object and a part
# of an answer, hundreds of bytes and microseconds of work, so a limit of the request's bytes is not enough.
# A client that names every topic of a large broker, with a partition of each, stays well below.
MOST_ELEMENTS = 300_000
MORE_THAN_MOST = f"its arrays hold more than {MOST_ELEMENTS} elements in all"


class Malformed(Exception):
    """The bytes break a rule; turned into an InvalidRequest that names message and field."""


def longer_varint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Finish a varint whose first byte, before `pos`, had its high bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Malformed("a varint exceeds 32 bits")
            return value, pos
    raise Malformed("a varint is longer than 5 bytes")


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else longer_varint(buf, pos + 1, first)


def put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tags(buf: Buffer, pos: int, size: int, count: int) -> int:
    """The position after `count` tagged fields that nobody here knows."""
    for _ in range(count):  # a lying count ends at the first field that is not there
        _tag, pos = read_varint(buf, pos)
        length, pos = read_varint(buf, pos)
        pos += length
        if pos > size:
            raise Malformed("a tagged field reaches beyond the end")
    return pos


def bad_length(length: int) -> None:
    raise Malformed(f"length {length} is null or negative where that is not allowed")


def too_long(length: int) -> None:
    raise Malformed(f"length {length} exceeds the bytes that are left")


def too_many(count: int) -> None:
    raise Malformed(f"count {count} exceeds what the bytes that are left could hold")


def too_many_in_all() -> None:
    raise Malformed(MORE_THAN_MOST)


def wrong_tag_size() -> None:
    raise Malformed("a tagged field's announced size is not its real size")
