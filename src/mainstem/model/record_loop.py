# cython: wraparound=False
"""The loops over the records of one batch, after decompression. Compiled where a C compiler is at hand.

    length           varint |  bytes that follow it
    attributes       i8     |  unused
    timestamp_delta  varint |  ms, to the batch's base timestamp; may be negative
    offset_delta     varint |  to the batch's base offset
    key              varint size, bytes     |  size -1: no key
    value            varint size, bytes     |  size -1: no value
    headers          varint count, each:  varint size, utf-8 name;  varint size (-1: none), bytes

A varint is zigzag-coded, 7 bits a byte, lowest first.

Types for the compiler are in record_loop.pxd; this file is plain Python and must stay as fast as that
allows. Two habits follow. A varint of one byte, by far the most common, is read in line, longer ones in a
function. Bytes are indexed without a check before: reading past the end raises IndexError in both worlds,
and the entry functions turn that into CorruptBatch. Sizes are checked before anything is sliced or kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount

from mainstem.model.errors import CorruptBatch, InvalidRequest, InvalidTimestamp
from mainstem.model.record import Headers, Record

# start, stop, timestamp delta, offset delta, key start and size, value start and size, headers start
Span = tuple[int, int, int, int, int, int, int, int, int]

MIN_RECORD_BYTES = 7  # every field of a record in one byte, its length included
_MIN_BODY_BYTES = 6
_MIN_HEADER_BYTES = 2
# No real timestamp is near this many ms, and the sum of two cannot leave 64 bits.
_MAX_DELTA_MS = 1 << 62
_MIN_DELTA_MS = -_MAX_DELTA_MS
# Where a value ends is written in 32 bits.
_MAX_COLUMN_BYTES = (1 << 31) - 1
_COMPILED = not __file__.endswith(".py")
# The most that fits into 64 bits when it is counted in microseconds.
_MAX_TIME_MS = (1 << 63) // 1000 - 1


def decode(
    data: bytes, count: int, last_delta: int, base_offset: int, base_ms: int, append_ms: int | None
) -> list[Record]:
    """All records. With `append_ms`, that is the timestamp of every one of them."""
    records = []
    pos, end, lowest = 0, len(data), 0
    try:
        for _ in range(count):
            _start, pos, time_delta, delta, key_at, key_size, value_at, value_size, at = _span(data, pos, end)
            if delta < lowest or delta > last_delta:
                raise CorruptBatch(f"offset delta {delta}, expected {lowest} to {last_delta}")
            lowest = delta + 1
            timestamp_ms = base_ms + time_delta if append_ms is None else append_ms
            key = data[key_at : key_at + key_size] if key_size >= 0 else None
            value = data[value_at : value_at + value_size] if value_size >= 0 else None
            if at + 1 == pos and data[at] == 0:
                records.append(Record(base_offset + delta, timestamp_ms, key, value))
            else:
                headers = _headers(data, at, pos)
                records.append(Record(base_offset + delta, timestamp_ms, key, value, headers))
    except IndexError:
        raise CorruptBatch("the records end early") from None
    if pos != end:
        raise CorruptBatch(f"{end - pos} bytes follow the last record")
    return records


def scan(data: bytes, count: int, last_delta: int) -> list[Span]:
    """Where each record and its parts lie, everything checked, nothing copied."""
    spans = []
    pos, end, lowest = 0, len(data), 0
    try:
        for _ in range(count):
            span = _span(data, pos, end)
            pos, delta = span[1], span[3]
            if delta < lowest or delta > last_delta:
                raise CorruptBatch(f"offset delta {delta}, expected {lowest} to {last_delta}")
            lowest = delta + 1
            _check_headers(data, span[8], pos)
            spans.append(span)
    except IndexError:
        raise CorruptBatch("the records end early") from None
    if pos != end:
        raise CorruptBatch(f"{end - pos} bytes follow the last record")
    return spans


def pick(data: bytes, numbers: Sequence[int]) -> list[Span]:
    """Where the records with these numbers lie, ascending from 0; those between are passed over unread."""
    spans = []
    pos, end, at = 0, len(data), 0
    try:
        for number in numbers:
            while at < number:
                size, pos = _read_varint(data, pos)
                if size < 0 or size > end - pos:
                    raise CorruptBatch(f"a record of {size} bytes where {end - pos} are left")
                pos += size
                at += 1
            span = _span(data, pos, end)
            pos = span[1]
            at += 1
            spans.append(span)
    except IndexError:
        raise CorruptBatch("the records end early") from None
    return spans


class Columns:
    """Records of many batches as columns, in the shape that Arrow wants, with no object per record.

    Numbers lie side by side, the bytes of a column end to end with where each ends, and there is a bit for
    each row, set when there is something. What lies behind the last end has no meaning. Here, and not in a
    file of its own, because a compiled function that another module can call is a slow one.
    """

    def __init__(self, capacity: int, with_headers: bool = False, room: int = 0) -> None:
        """`room`: bytes that the values are likely to take."""
        self.capacity = capacity
        self.rows = 0
        self.null_keys = 0
        self.null_values = 0
        self.held_bytes = 0  # of keys and values
        self.offset_data = bytearray(8 * capacity)
        self.time_data = bytearray(8 * capacity)
        self.key_end_data = bytearray(4 * (capacity + 1))
        self.value_end_data = bytearray(4 * (capacity + 1))
        self.key_valid = bytearray((capacity + 7) // 8)
        self.value_valid = bytearray((capacity + 7) // 8)
        self.keys = bytearray()
        self.values = bytearray(room)
        self.with_headers = with_headers
        self.headers: list[Headers] = []
        self._offsets = memoryview(self.offset_data).cast("q")
        self._times = memoryview(self.time_data).cast("q")
        self._key_ends = memoryview(self.key_end_data).cast("i")
        self._value_ends = memoryview(self.value_end_data).cast("i")
        self._own_holders = self._holders()

    def clear(self) -> bool:
        """Empty, for other rows; False, and nothing has changed, while others hold what it filled.

        New memory has to be found and filled with zeros, which costs more than what is written to it.
        """
        if self._holders() != self._own_holders:
            return False
        self.rows = self.null_keys = self.null_values = self.held_bytes = 0
        self.key_valid[:] = bytes(len(self.key_valid))
        self.value_valid[:] = bytes(len(self.value_valid))
        self.headers = []
        return True

    def _holders(self) -> tuple[int, ...]:
        """How many refer to each of its parts: whoever was given one counts too."""
        return (
            getrefcount(self.offset_data),
            getrefcount(self.time_data),
            getrefcount(self.key_end_data),
            getrefcount(self.value_end_data),
            getrefcount(self.key_valid),
            getrefcount(self.value_valid),
            getrefcount(self.keys),
            getrefcount(self.values),
        )

    def add(
        self,
        data: bytes,
        count: int,
        base: tuple[int, int, int],
        append_ms: int | None,
        first: int,
        stop: int,
    ) -> None:
        """The records of one batch whose offsets are `first` or above and below `stop`.

        `base` is the batch's first offset, its greatest offset delta and its first timestamp in ms. With
        `append_ms`, that is the timestamp of every record. There must be room for `count` rows. Timestamps
        are kept in microseconds, those beyond as near as can be.
        """
        base_offset, last_delta, base_ms = base
        same_time = append_ms is not None
        if append_ms is not None:
            base_ms = append_ms
        pos, end, lowest, row = 0, len(data), 0, self.rows
        if count > self.capacity - row:
            raise InvalidRequest(f"{count} records where there is room for {self.capacity - row}")
        key_end, value_end = self._key_ends[row], self._value_ends[row]
        if key_end + end > _MAX_COLUMN_BYTES or value_end + end > _MAX_COLUMN_BYTES:
            raise InvalidRequest(f"keys or values of more than {_MAX_COLUMN_BYTES} bytes in one column")
        # Values cannot need more room than all of it takes, nor can keys; but often there are none.
        if len(self.values) < value_end + end:
            self.values.extend(bytes(value_end + end - len(self.values)))
        try:
            for _ in range(count):
                _start, pos, time_delta, delta, key_at, key_size, value_at, value_size, at = _span(
                    data, pos, end
                )
                if delta < lowest or delta > last_delta:
                    raise CorruptBatch(f"offset delta {delta}, expected {lowest} to {last_delta}")
                lowest = delta + 1
                offset = base_offset + delta
                if offset < first or offset >= stop:
                    continue
                if key_size >= 0:
                    if len(self.keys) < key_end + key_size:
                        self.keys.extend(bytes(key_end + end - len(self.keys)))
                    self.key_valid[row >> 3] |= 1 << (row & 7)
                    _copy(data, key_at, self.keys, key_end, key_size)
                    key_end += key_size
                else:
                    self.null_keys += 1
                if value_size >= 0:
                    self.value_valid[row >> 3] |= 1 << (row & 7)
                    _copy(data, value_at, self.values, value_end, value_size)
                    value_end += value_size
                else:
                    self.null_values += 1
                self._offsets[row] = offset
                self._times[row] = _microseconds(base_ms if same_time else base_ms + time_delta)
                row += 1
                self._key_ends[row] = key_end
                self._value_ends[row] = value_end
                if self.with_headers:
                    self.headers.append(_headers(data, at, pos))
        except IndexError:
            raise CorruptBatch("the records end early") from None
        if pos != end:
            raise CorruptBatch(f"{end - pos} bytes follow the last record")
        self.rows = row
        self.held_bytes = key_end + value_end


def _copy(data: bytes, start: int, target: bytearray, at: int, size: int) -> None:
    """Where there is room: the caller has made it."""
    if _COMPILED:  # plain memory, where such a loop is a copy
        source, to = data, target
        for index in range(size):
            to[at + index] = source[start + index]
    else:
        target[at : at + size] = data[start : start + size]


def _microseconds(time_ms: int) -> int:
    if time_ms > _MAX_TIME_MS:
        return _MAX_TIME_MS * 1000
    if time_ms < -_MAX_TIME_MS:
        return -_MAX_TIME_MS * 1000
    return time_ms * 1000


def _span(data: bytes, pos: int, end: int) -> Span:
    """The record at `pos` but for its headers: the caller must check that those end at `stop`."""
    start = pos
    raw = data[pos]
    pos += 1
    if raw >= 128:
        raw, pos = _long_varint(data, pos, raw)
    size = (raw >> 1) ^ -(raw & 1)
    if size < _MIN_BODY_BYTES or size > end - pos:
        raise CorruptBatch(f"a record of {size} bytes where {end - pos} are left")
    stop = pos + size
    pos += 1  # attributes

    raw = data[pos]
    pos += 1
    if raw >= 128:
        raw, pos = _long_varint(data, pos, raw)
    time_delta = (raw >> 1) ^ -(raw & 1)
    if time_delta > _MAX_DELTA_MS or time_delta < _MIN_DELTA_MS:
        raise CorruptBatch(f"a timestamp delta of {time_delta} ms")

    raw = data[pos]
    pos += 1
    if raw >= 128:
        raw, pos = _long_varint(data, pos, raw)
    delta = (raw >> 1) ^ -(raw & 1)

    raw = data[pos]
    pos += 1
    if raw >= 128:
        raw, pos = _long_varint(data, pos, raw)
    key_size = (raw >> 1) ^ -(raw & 1)
    key_at = pos
    if key_size >= 0:
        if key_size > stop - pos:
            raise CorruptBatch(f"a key of {key_size} bytes in a record of {size}")
        pos += key_size

    raw = data[pos]
    pos += 1
    if raw >= 128:
        raw, pos = _long_varint(data, pos, raw)
    value_size = (raw >> 1) ^ -(raw & 1)
    value_at = pos
    if value_size >= 0:
        if value_size > stop - pos:
            raise CorruptBatch(f"a value of {value_size} bytes in a record of {size}")
        pos += value_size
    return start, stop, time_delta, delta, key_at, key_size, value_at, value_size, pos


def _long_varint(data: bytes, pos: int, first: int) -> tuple[int, int]:
    """The whole varint, zigzag not undone, and its end, when its first byte says that more follow."""
    value, shift = first & 127, 7
    while True:
        byte = data[pos]
        pos += 1
        if shift == 63 and byte > 1:
            raise CorruptBatch("a varint of more than 64 bits")
        more = byte & 127
        value |= more << shift
        if byte < 128:
            return value, pos
        shift += 7


def _read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """The number at `pos` and where it ends; IndexError when the bytes do."""
    raw = data[pos]
    pos += 1
    if raw >= 128:
        raw, pos = _long_varint(data, pos, raw)
    return (raw >> 1) ^ -(raw & 1), pos


def decode_headers(data: bytes, pos: int, stop: int) -> Headers:
    """Of one record, whose span says where they start and where it stops."""
    try:
        return _headers(data, pos, stop)
    except IndexError:
        raise CorruptBatch("the headers end early") from None


def _headers(data: bytes, pos: int, stop: int) -> Headers:
    count, pos = _read_varint(data, pos)
    if count < 0 or count * _MIN_HEADER_BYTES > stop - pos:
        raise CorruptBatch(f"{count} headers in {stop - pos} bytes")
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = _read_varint(data, pos)
        if size < 0 or size > stop - pos:
            raise CorruptBatch(f"a header name of {size} bytes where {stop - pos} are left")
        # As the Java client does; slicing and filtering copy names as they came.
        name = data[pos : pos + size].decode("utf-8", "replace")
        pos += size
        size, pos = _read_varint(data, pos)
        if size < 0:
            found.append((name, None))
            continue
        if size > stop - pos:
            raise CorruptBatch(f"a header value of {size} bytes where {stop - pos} are left")
        found.append((name, data[pos : pos + size]))
        pos += size
    if pos != stop:
        raise CorruptBatch("the headers do not end where the record does")
    return tuple(found)


def _check_headers(data: bytes, pos: int, stop: int) -> None:
    if pos + 1 == stop and data[pos] == 0:
        return
    count, pos = _read_varint(data, pos)
    if count < 0 or count * _MIN_HEADER_BYTES > stop - pos:
        raise CorruptBatch(f"{count} headers in {stop - pos} bytes")
    for _ in range(count):
        size, pos = _read_varint(data, pos)
        if size < 0 or size > stop - pos:
            raise CorruptBatch(f"a header name of {size} bytes where {stop - pos} are left")
        size, pos = _read_varint(data, pos + size)
        if size > stop - pos:
            raise CorruptBatch(f"a header value of {size} bytes where {stop - pos} are left")
        if size > 0:
            pos += size
    if pos != stop:
        raise CorruptBatch("the headers do not end where the record does")


def encode(out: bytearray, records: Sequence[Record], base_ms: int) -> int:
    """Append `records`, numbered from 0; returns their largest timestamp, which is `base_ms` at least."""
    max_ms = base_ms
    for delta, record in enumerate(records):
        timestamp_ms = record.timestamp_ms
        if timestamp_ms > max_ms:
            max_ms = timestamp_ms
        if timestamp_ms > _MAX_DELTA_MS or timestamp_ms < _MIN_DELTA_MS:
            raise InvalidTimestamp(f"a timestamp of {timestamp_ms} ms")
        headers = encode_headers(record.headers) if record.headers else None
        append_record(out, timestamp_ms - base_ms, delta, record.key, record.value, headers)
    return max_ms


def append_record(
    out: bytearray, time_delta: int, delta: int, key: bytes | None, value: bytes | None, headers: bytes | None
) -> None:
    """Append one record; `headers`, if any, are already encoded, count included."""
    time_raw = (time_delta << 1) ^ (time_delta >> 63)
    delta_raw = delta << 1
    key_raw = 1 if key is None else len(key) << 1
    value_raw = 1 if value is None else len(value) << 1
    size = 2 if headers is None else 1 + len(headers)
    size += 1 if time_raw < 128 else _varint_size(time_raw)
    size += 1 if delta_raw < 128 else _varint_size(delta_raw)
    size += 1 if key_raw < 128 else _varint_size(key_raw)
    size += 1 if value_raw < 128 else _varint_size(value_raw)
    size += (key_raw >> 1) + (value_raw >> 1)
    _append_varint(out, size << 1)
    out.append(0)  # attributes
    _append_varint(out, time_raw)
    _append_varint(out, delta_raw)
    _append_varint(out, key_raw)
    if key is not None:
        out += key
    _append_varint(out, value_raw)
    if value is not None:
        out += value
    if headers is None:
        out.append(0)
    else:
        out += headers


def encode_headers(headers: Headers) -> bytes:
    out = bytearray()
    _append_varint(out, len(headers) << 1)
    for name, value in headers:
        raw_name = name.encode()
        _append_varint(out, len(raw_name) << 1)
        out += raw_name
        _append_varint(out, 1 if value is None else len(value) << 1)
        if value is not None:
            out += value
    return bytes(out)


def add_headers(headers: bytes, extra: Headers) -> bytes:
    """Encoded `headers` (checked before) with `extra` at their end."""
    count, pos = _read_varint(headers, 0)
    more = encode_headers(extra)
    _count, more_at = _read_varint(more, 0)
    out = bytearray()
    _append_varint(out, (count + len(extra)) << 1)
    out += headers[pos:]
    out += more[more_at:]
    return bytes(out)


def _varint_size(raw: int) -> int:
    size = 1
    while raw >= 128:
        raw >>= 7
        size += 1
    return size


def _append_varint(out: bytearray, raw: int) -> None:
    while raw >= 128:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
