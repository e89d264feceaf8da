# cython: wraparound=False
"""Whether the records of one batch are sound, and which of them comes at a time. Compiled where possible.

Everything that clients send passes `check`: a record that is not what it says would stop every reader of its
partition. Nothing is kept or copied, so that it costs a few nanoseconds a record; records are laid out as
record_loop.py draws them, and its two habits (short varints in line, bytes indexed without a check before)
are followed here too. Types for the compiler are in record_check.pxd.
"""

from __future__ import annotations

from mainstem.model.errors import CorruptBatch

Bytes = bytes | bytearray | memoryview

_MIN_BODY_BYTES = 6
_MIN_HEADER_BYTES = 2
# No real timestamp is near this many ms, and the sum of two cannot leave 64 bits.
_MAX_DELTA_MS = 1 << 62
# By how many bits the last byte of a varint is shifted, of 32 and of 64 bits.
_INT, _LONG = 28, 63


def check(  # noqa: C901, PLR0915  # a call costs more
    data: Bytes, pos: int, first: int, count: int
) -> tuple[int, int, int]:
    """The largest timestamp delta, the number of records without a key, and where they end, of the records
    from number `first` to before number `count`, which begin at `pos`. Offsets must have no gaps.

    Sizes and offsets are varints of 32 bits, of at most 5 bytes; only timestamps may have 64.
    """
    end, max_delta, keyless = len(data), -_MAX_DELTA_MS, 0
    try:
        for index in range(first, count):
            raw = data[pos]
            pos += 1
            if raw >= 128:
                more = data[pos]
                pos += 1
                raw = raw & 127 | more << 7
                if more >= 128:
                    raw, pos = _rest(data, pos, raw, _INT)
            size = (raw >> 1) ^ -(raw & 1)
            if size < _MIN_BODY_BYTES or size > end - pos:
                raise CorruptBatch(f"a record of {size} bytes where {end - pos} are left")
            stop = pos + size
            pos += 1  # attributes

            raw = data[pos]
            pos += 1
            if raw >= 128:
                more = data[pos]
                pos += 1
                raw = raw & 127 | more << 7
                if more >= 128:
                    raw, pos = _rest(data, pos, raw, _LONG)
            time_delta = (raw >> 1) ^ -(raw & 1)
            if time_delta > _MAX_DELTA_MS or time_delta < -_MAX_DELTA_MS:
                raise CorruptBatch(f"a timestamp delta of {time_delta} ms")
            if time_delta > max_delta:
                max_delta = time_delta

            raw = data[pos]
            pos += 1
            if raw >= 128:
                more = data[pos]
                pos += 1
                raw = raw & 127 | more << 7
                if more >= 128:
                    raw, pos = _rest(data, pos, raw, _INT)
            size = (raw >> 1) ^ -(raw & 1)
            if size != index:
                raise CorruptBatch(f"record {index} has the offset delta {size}")

            if data[pos] == 1:  # no key, as a varint
                keyless += 1
                pos += 1
            else:
                pos = _after_bytes(data, pos, stop)
            raw = data[pos]
            pos += 1
            if raw >= 128:
                more = data[pos]
                pos += 1
                raw = raw & 127 | more << 7
                if more >= 128:
                    raw, pos = _rest(data, pos, raw, _INT)
            size = (raw >> 1) ^ -(raw & 1)
            if size > stop - pos:
                raise CorruptBatch(f"a value of {size} bytes where {stop - pos} are left")
            if size > 0:
                pos += size

            if data[pos] != 0 or pos + 1 != stop:
                _check_headers(data, pos, stop)
            pos = stop
    except IndexError:
        raise CorruptBatch("the records end early") from None
    return max_delta, keyless, pos


def first_since(data: Bytes, count: int, time_delta: int, offset_delta: int) -> tuple[int, int] | None:
    """(offset delta, timestamp delta) of the first record that is before neither of the two given."""
    pos = 0
    try:
        for _ in range(count):
            found_time, found_offset, pos = _times(data, pos)
            if found_time >= time_delta and found_offset >= offset_delta:
                return found_offset, found_time
    except IndexError:
        raise CorruptBatch("the records end early") from None
    return None


def latest(data: Bytes, count: int, offset_delta: int) -> tuple[int, int] | None:
    """The same of the record with the greatest timestamp from that offset on, the first one of several."""
    pos, top_offset, top_time = 0, -1, 0
    try:
        for _ in range(count):
            found_time, found_offset, pos = _times(data, pos)
            if found_offset >= offset_delta and (top_offset < 0 or found_time > top_time):
                top_offset, top_time = found_offset, found_time
    except IndexError:
        raise CorruptBatch("the records end early") from None
    return None if top_offset < 0 else (top_offset, top_time)


def without_key(data: Bytes, pos: int, count: int, most: int) -> list[int]:
    """The positions of the first `most` records without a key, of records that `check` has passed."""
    found: list[int] = []
    for index in range(count):
        size, pos = _varint(data, pos, _INT)
        stop = pos + size
        _, pos = _varint(data, pos + 1, _LONG)
        _, pos = _varint(data, pos, _INT)
        size, pos = _varint(data, pos, _INT)
        if size < 0:
            found.append(index)
            if len(found) == most:
                break
        pos = stop
    return found


def _times(data: Bytes, pos: int) -> tuple[int, int, int]:
    """Timestamp delta and offset delta of the record at `pos`, and where it ends."""
    size, pos = _varint(data, pos, _INT)
    if size < _MIN_BODY_BYTES or size > len(data) - pos:
        raise CorruptBatch(f"a record of {size} bytes where {len(data) - pos} are left")
    stop = pos + size
    time_delta, pos = _varint(data, pos + 1, _LONG)
    if time_delta > _MAX_DELTA_MS or time_delta < -_MAX_DELTA_MS:
        raise CorruptBatch(f"a timestamp delta of {time_delta} ms")
    offset_delta, pos = _varint(data, pos, _INT)
    if offset_delta < 0:
        raise CorruptBatch(f"an offset delta of {offset_delta}")
    return time_delta, offset_delta, stop


def _after_bytes(data: Bytes, pos: int, stop: int) -> int:
    """Where a size and that many bytes end."""
    size, pos = _varint(data, pos, _INT)
    if size < 0 or size > stop - pos:
        raise CorruptBatch(f"a key of {size} bytes where {stop - pos} are left")
    return pos + size


def _check_headers(data: Bytes, pos: int, stop: int) -> None:
    count, pos = _varint(data, pos, _INT)
    if count < 0 or count * _MIN_HEADER_BYTES > stop - pos:
        raise CorruptBatch(f"{count} headers in {stop - pos} bytes")
    for _ in range(count):
        size, pos = _varint(data, pos, _INT)
        if size < 0 or size > stop - pos:
            raise CorruptBatch(f"a header name of {size} bytes where {stop - pos} are left")
        size, pos = _varint(data, pos + size, _INT)
        if size > stop - pos:
            raise CorruptBatch(f"a header value of {size} bytes where {stop - pos} are left")
        if size > 0:
            pos += size
    if pos != stop:
        raise CorruptBatch("the headers do not end where the record does")


def _varint(data: Bytes, pos: int, widest: int) -> tuple[int, int]:
    """The number at `pos` and where it ends; IndexError when the bytes do."""
    raw = data[pos]
    pos += 1
    if raw >= 128:
        more = data[pos]
        pos += 1
        raw = raw & 127 | more << 7
        if more >= 128:
            raw, pos = _rest(data, pos, raw, widest)
    return (raw >> 1) ^ -(raw & 1), pos


def _rest(data: Bytes, pos: int, value: int, widest: int) -> tuple[int, int]:
    """The whole varint, zigzag not undone, and its end: `value` is its first two bytes, and more follow.

    `widest` is by how many bits the last byte that may come is shifted.
    """
    value, shift = value & 0x3FFF, 14
    while True:
        byte = data[pos]
        pos += 1
        if shift == widest and byte > (1 if widest == _LONG else 15):
            raise CorruptBatch("a varint of more bits than its field has")
        more = byte & 127
        value |= more << shift
        if byte < 128:
            return value, pos
        shift += 7
