"""The record batch header: Kafka's record batch format v2, the unit we store, index and send.

Everything here works on the 61 bytes before the records and never looks at a record, so it costs the same
for a batch of one and a batch of ten thousand. All integers are big-endian.

     0  base_offset        i64 |  patched when the batch is given its place:
     8  length             i32 |  bytes that follow this field
    12  leader_epoch       i32 |  patched when the batch is given its place
    16  magic              i8  |  2
    17  crc                u32 |  crc32c of everything from byte 21 to the end
    21  attributes         i16 |  see below
    23  last_offset_delta  i32
    27  base_timestamp     i64 |  ms; the records' timestamps are deltas to it
    35  max_timestamp      i64 |  ms; with append time, every record's timestamp
    43  producer_id        i64 |  -1: none
    51  producer_epoch     i16
    53  base_sequence      i32
    57  record_count       i32
    61  records ...            |  compressed as one block when a codec is set

    attributes   bits 0-2 codec, 3 append time, 4 transactional, 5 control, 6 base_timestamp is the time
                 after which tombstones and markers in this batch may go, 7-15 unused

The crc leaves out the first 21 bytes, so a place can be given without touching what the producer signed.

Types for the compiler are in batch.pxd.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from mainstem.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    MainstemError,
    UnsupportedBatchFormat,
    UnsupportedCompression,
)

HEADER = Struct(">qiibIhiqqqhii")
PREFIX = Struct(">qii")  # base_offset, length, leader_epoch: all that placing a batch may change
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_put_base_offset = _BASE_OFFSET.pack_into
_put_epoch = _LEADER_EPOCH.pack_into
_unpack_epoch = _LEADER_EPOCH.unpack_from
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")

BATCH_OVERHEAD = 61
LENGTH_END = 12  # the length field counts from here
PREFIX_SIZE = 16
MAGIC_AT = 16
CRC_AT = 17
SIGNED_FROM = 21  # the crc covers from here
CRC_PIECE_BYTES = (16 << 10) - 64  # the crc's library lets go of the GIL for 16 KiB and more
MAX_TIMESTAMP_AT = 35
MAGIC = 2

CODEC_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD = range(5)

# A producer may set only a codec and the transactional bit. Unused bits are let through, as Kafka does.
_NOT_FOR_PRODUCERS = APPEND_TIME_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


class BatchHeader(NamedTuple):
    """The header as it stands on the wire, field by field."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & APPEND_TIME_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may go, once compaction has set it."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


# The fields of a header in their order, without names.
HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
_unpack_header = HEADER.unpack_from
# Skips NamedTuple's own __new__, which would unpack and repack the thirteen fields.
_new_tuple = tuple.__new__


def read_header(buf: bytes | bytearray | memoryview, pos: int = 0) -> BatchHeader:
    """The header at `pos`; at least 61 bytes must follow it. Checks nothing."""
    return _new_tuple(BatchHeader, _unpack_header(buf, pos))


def read_fields(buf: memoryview) -> HeaderFields:
    """The fields of a header without names, for who takes them apart at once. Checks nothing."""
    fields: HeaderFields = _unpack_header(buf)
    return fields


def check_batch(buf: memoryview, max_bytes: int) -> BatchHeader:
    """The header of a producer's record set, which must be exactly one sound batch of at most `max_bytes`.

    Records are not looked at; `records.check_records` does.
    """
    return header_of(checked_fields(buf, max_bytes))


def checked_fields(buf: memoryview, max_bytes: int) -> HeaderFields:
    """As `check_batch`, the fields of the header alone: one unpack, one crc, for the hot path of produce."""
    size = len(buf)
    if size < BATCH_OVERHEAD:
        raise _why_short(buf)
    fields: HeaderFields = _unpack_header(buf)
    _, length, _, magic, crc, attributes, last_delta, _, _, producer_id, _, sequence, count = fields
    if (
        length + LENGTH_END != size
        or magic != MAGIC
        or size > max_bytes
        or count <= 0
        or last_delta != count - 1
        or attributes & _NOT_FOR_PRODUCERS
        or attributes & CODEC_MASK > ZSTD
        or (sequence < 0 <= producer_id)
        or (producer_id < 0 and attributes & TRANSACTIONAL_BIT)
    ):
        raise _why_refused(header_of(fields), size, max_bytes)
    if _crc(buf[SIGNED_FROM:]) != crc:
        raise CorruptBatch(f"the crc of a batch of {size} bytes does not match")
    return fields


def header_of(fields: HeaderFields) -> BatchHeader:
    return _new_tuple(BatchHeader, fields)


def _why_short(buf: memoryview) -> MainstemError:
    if len(buf) > MAGIC_AT and 0 <= buf[MAGIC_AT] < MAGIC:
        return UnsupportedBatchFormat(f"record format {buf[MAGIC_AT]} is not supported, only {MAGIC}")
    return InvalidRecord(f"{len(buf)} bytes are not a whole batch")


def _why_refused(header: BatchHeader, size: int, max_bytes: int) -> MainstemError:
    """The error Kafka would answer; called only once a batch is known to be refused."""
    magic, count = header.magic, header.record_count
    if 0 <= magic < MAGIC:
        return UnsupportedBatchFormat(f"record format {magic} is not supported, only {MAGIC}")
    if magic != MAGIC:
        return CorruptBatch(f"there is no record format {magic}")
    if header.length + LENGTH_END < BATCH_OVERHEAD:
        return CorruptBatch(f"a batch cannot have a length of {header.length}")
    if header.size > size:
        return InvalidRecord(f"the batch says {header.size} bytes but only {size} came")
    if header.size < size:
        return InvalidRecord(f"{size - header.size} bytes follow the batch; exactly one batch is allowed")
    if size > max_bytes:
        return BatchTooLarge(f"a batch of {size} bytes is above the limit of {max_bytes}")
    if header.codec > ZSTD:
        return UnsupportedCompression(f"there is no compression codec {header.codec}")
    if count <= 0:
        return InvalidRecord(f"a batch cannot have a record count of {count}")
    if header.last_offset_delta != count - 1:
        return InvalidRecord(f"last offset delta {header.last_offset_delta} in a batch of {count} records")
    if header.is_control:
        return InvalidRecord("clients may not write control batches")
    if header.is_log_append_time:
        return InvalidTimestamp("a producer may not set the append time bit")
    if header.has_delete_horizon:
        return InvalidRecord("a producer may not set the delete horizon bit")
    if header.is_transactional and not header.has_producer_id:
        return InvalidRecord("a transactional batch without a producer id: no transaction would ever end it")
    return InvalidRecord(f"sequence {header.base_sequence} with producer id {header.producer_id}")


def _crc(signed: memoryview) -> int:
    """In pieces for which the library keeps the GIL: to get it back can take longer than a megabyte's crc."""
    crc = crc32c(signed[:CRC_PIECE_BYTES])
    for at in range(CRC_PIECE_BYTES, len(signed), CRC_PIECE_BYTES):
        crc = crc32c(signed[at : at + CRC_PIECE_BYTES], crc)
    return crc


def crc_matches(buf: bytes | bytearray | memoryview) -> bool:
    """Whether a buffer of exactly one batch, header included, is what its crc was made for."""
    view = memoryview(buf)
    return bool(_crc(view[SIGNED_FROM:]) == _CRC.unpack_from(view, CRC_AT)[0])


def seal(buf: bytearray | memoryview) -> None:
    """Write the crc of a buffer of exactly one batch, after its other fields were changed."""
    _CRC.pack_into(buf, CRC_AT, _crc(memoryview(buf)[SIGNED_FROM:]))


def place_batch(buf: bytearray | memoryview, base_offset: int, leader_epoch: int, pos: int = 0) -> None:
    """Give the batch at `pos` its place. In place, outside the crc."""
    _put_base_offset(buf, pos, base_offset)
    _put_epoch(buf, pos + LENGTH_END, leader_epoch)


def leader_epoch(buf: bytes | bytearray | memoryview, pos: int = 0) -> int:
    """Of the batch at `pos`, as it was placed."""
    return int(_unpack_epoch(buf, pos + LENGTH_END)[0])


def placed_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of the batch at its place; its bytes from 16 on follow unchanged.

    For a batch in memory that may not be written to: gather the two instead of copying the body.
    """
    return PREFIX.pack(base_offset, header.length, leader_epoch)


def stamp_append_time(buf: bytearray | memoryview, now_ms: int) -> None:
    """Make `now_ms` the timestamp of every record in a buffer of exactly one batch, and seal it again."""
    (attributes,) = _ATTRIBUTES.unpack_from(buf, SIGNED_FROM)
    _ATTRIBUTES.pack_into(buf, SIGNED_FROM, attributes | APPEND_TIME_BIT)
    stamp_max_timestamp(buf, now_ms)


def stamp_max_timestamp(buf: bytearray | memoryview, timestamp_ms: int) -> None:
    """Write the greatest timestamp of the records where a producer wrote another one, and seal it again."""
    _MAX_TIMESTAMP.pack_into(buf, MAX_TIMESTAMP_AT, timestamp_ms)
    seal(buf)


def iter_batches(buf: bytes | bytearray | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch in `buf`.

    A fetch response may end in the middle of a batch: that one is left out. A length that no batch can
    have is CorruptBatch, since nothing after it can be found. The crc is not looked at.
    """
    pos, end = 0, len(buf)
    while end - pos >= BATCH_OVERHEAD:
        header = _new_tuple(BatchHeader, _unpack_header(buf, pos))
        size = header.length + LENGTH_END
        if size < BATCH_OVERHEAD:
            raise CorruptBatch(f"the batch at byte {pos} says it has a length of {header.length}")
        if size > end - pos:
            return
        yield pos, header
        pos += size
