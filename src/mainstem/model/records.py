"""The records inside a batch: made, read, sliced and filtered.

Whoever calls a function here pays per record; the hot paths of produce and fetch do not (see batch.py).
A batch is given whole, header included, and its crc is not looked at again. Memory is bounded by the caller:
decompressed records above `max_bytes`, and counts that cannot fit in them, are CorruptBatch before they cost
anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import NamedTuple

from mainstem.model import record_check, record_loop
from mainstem.model.batch import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    LENGTH_END,
    MAGIC,
    NO_CODEC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
    seal,
)
from mainstem.model.compression import Data, compress, decompress
from mainstem.model.errors import CorruptBatch, GrowsTooLarge, InvalidRecord, InvalidTimestamp
from mainstem.model.record import Headers, Record
from mainstem.model.record_loop import MIN_RECORD_BYTES, Span

__all__ = [
    "Headers",
    "Record",
    "RecordKey",
    "check_records",
    "control_batch",
    "decode_records",
    "empty_batch",
    "encode_batch",
    "filter_batch",
    "first_at_or_after",
    "max_timestamp_record",
    "open_records",
    "read_control",
    "recompressed",
    "record_keys",
    "slice_batch",
]

# For callers that have no limit of their own. Far above any batch a producer may send by default.
MAX_RECORDS_BYTES = 64 * 1024 * 1024
# Nothing real is near these, and below them no sum with a delta can leave 64 bits.
_MAX_TIMESTAMP_MS = 1 << 62
_MAX_OFFSET = 1 << 62
_MAX_OFFSET_DELTA = 2**31 - 1
NO_TIMESTAMP_MS = -1
PIECE_RECORDS = 100_000  # a millisecond
# Of the records that a batch is refused for: an answer with a million of them helps nobody.
_MAX_NAMED = 100

# An end-of-transaction marker is one record: the key says what it is, the value who wrote it.
_CONTROL_KEY = Struct(">hh")  # version 0, type
_MARKER_VALUE = Struct(">hi")  # version 0, coordinator epoch
_ABORT, _COMMIT = 0, 1


class RecordKey(NamedTuple):
    """What key compaction needs to know of a record."""

    offset: int
    key: bytes | None
    is_tombstone: bool


# --- reading -----------------------------------------------------------------------------------


def decode_records(batch: Data, max_bytes: int = MAX_RECORDS_BYTES) -> list[Record]:
    """Every record of the batch, with its offset and timestamp."""
    header, data = open_records(batch, max_bytes)
    append_ms = header.max_timestamp_ms if header.is_log_append_time else None
    return record_loop.decode(
        data,
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.base_timestamp_ms,
        append_ms,
    )


def check_records(
    batch: Data,
    max_bytes: int = MAX_RECORDS_BYTES,
    *,
    need_keys: bool = False,
    pause: Callable[[], object] | None = None,
) -> int:
    """Refuse a producer's batch (already through `check_batch`) whose records are not sound; the greatest
    timestamp of its records, which need not be what its header says.

    Offsets must count up from 0 without gaps, and with `need_keys` (a compacted topic) every record must
    have a key. GrowsTooLarge, if they are more than `max_bytes`, says nothing of what they are.
    Compiled, the walk lets no other thread run: off the loop, `pause` is called now and then.
    """
    header = read_header(batch)
    count, base_ms = header.record_count, header.base_timestamp_ms
    if not -_MAX_TIMESTAMP_MS < base_ms < _MAX_TIMESTAMP_MS:  # the sum with any delta has 64 bits
        raise InvalidRecord(f"a base timestamp of {base_ms} ms")
    try:
        data, start = batch, BATCH_OVERHEAD
        if header.codec != NO_CODEC:
            data, start = decompress(header.codec, memoryview(batch)[BATCH_OVERHEAD:], max_bytes), 0
        at = PIECE_RECORDS if pause is not None and count > PIECE_RECORDS else count
        max_delta, keyless, end = record_check.check(data, start, 0, at)
        while at < count:
            assert pause is not None
            pause()
            first, at = at, min(at + PIECE_RECORDS, count)
            more_delta, more_keyless, end = record_check.check(data, end, first, at)
            max_delta, keyless = max(max_delta, more_delta), keyless + more_keyless
        if end != len(data):
            raise CorruptBatch(f"{len(data) - end} bytes follow the last record")
    except GrowsTooLarge:
        raise
    except CorruptBatch as error:
        # The crc matched: it was made like that, and will not be better when it is sent again.
        raise InvalidRecord(str(error)) from None
    if keyless and need_keys:
        named = record_check.without_key(data, start, count, _MAX_NAMED)
        raise InvalidRecord(f"{keyless} records have no key, which a compacted topic needs", named)
    return base_ms + max_delta


def record_keys(batch: Data, max_bytes: int = MAX_RECORDS_BYTES) -> list[RecordKey]:
    header, data = open_records(batch, max_bytes)
    return [_key_of(data, span, header.base_offset) for span in _spans(header, data)]


def first_at_or_after(
    batch: Data, timestamp_ms: int, max_bytes: int = MAX_RECORDS_BYTES, *, from_offset: int = 0
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record, in offset order, that is at least as late as asked."""
    if read_header(batch).max_timestamp_ms < timestamp_ms:
        return None
    header, data = open_records(batch, max_bytes)
    base_ms = header.base_timestamp_ms
    late_delta = max(timestamp_ms - base_ms, -_MAX_TIMESTAMP_MS)
    if header.is_log_append_time:
        late_delta = -_MAX_TIMESTAMP_MS  # every record has the time of the batch
    from_delta = max(from_offset - header.base_offset, 0)
    return _placed(header, record_check.first_since(data, header.record_count, late_delta, from_delta))


def max_timestamp_record(
    batch: Data, max_bytes: int = MAX_RECORDS_BYTES, *, from_offset: int = 0
) -> tuple[int, int] | None:
    """Offset and timestamp of the latest record, the first one of several; None where there is no record."""
    header, data = open_records(batch, max_bytes)
    from_delta = max(from_offset - header.base_offset, 0)
    if header.is_log_append_time:
        return _placed(
            header, record_check.first_since(data, header.record_count, -_MAX_TIMESTAMP_MS, from_delta)
        )
    return _placed(header, record_check.latest(data, header.record_count, from_delta))


def _placed(header: BatchHeader, found: tuple[int, int] | None) -> tuple[int, int] | None:
    """Offset and timestamp of what was found as deltas to the batch's."""
    if found is None:
        return None
    offset_delta, time_delta = found
    timestamp_ms = header.base_timestamp_ms + time_delta
    return header.base_offset + offset_delta, (
        header.max_timestamp_ms if header.is_log_append_time else timestamp_ms
    )


def read_control(batch: Data) -> bool:
    """Whether an end-of-transaction marker commits (True) or aborts (False)."""
    header, data = open_records(batch, MAX_RECORDS_BYTES)
    if not header.is_control or header.record_count != 1:
        raise CorruptBatch(f"the batch at offset {header.base_offset} is not a transaction marker")
    (span,) = _spans(header, data)
    _, _, _, _, key_at, key_size, _, _, _ = span
    if key_size < _CONTROL_KEY.size:
        raise CorruptBatch(f"a control record with a key of {key_size} bytes")
    _version, kind = _CONTROL_KEY.unpack_from(data, key_at)
    if kind not in (_ABORT, _COMMIT):
        raise CorruptBatch(f"a control record of type {kind} is not a transaction marker")
    return bool(kind == _COMMIT)


def open_records(batch: Data, max_bytes: int = MAX_RECORDS_BYTES) -> tuple[BatchHeader, bytes]:
    """Header and plain records of a batch, with no more memory spent than it may take."""
    if len(batch) < BATCH_OVERHEAD:
        raise CorruptBatch(f"{len(batch)} bytes are not a whole batch")
    header = read_header(batch)
    count = header.record_count
    if header.magic != MAGIC or header.size != len(batch):
        raise CorruptBatch(f"a buffer of {len(batch)} bytes is not one batch of format {MAGIC}")
    if count < 0 or header.last_offset_delta < count - 1:
        raise CorruptBatch(f"{count} records with a last offset delta of {header.last_offset_delta}")
    if not -_MAX_TIMESTAMP_MS <= header.base_timestamp_ms <= _MAX_TIMESTAMP_MS:
        raise CorruptBatch(f"a base timestamp of {header.base_timestamp_ms} ms")
    if not -_MAX_OFFSET <= header.base_offset <= _MAX_OFFSET:
        raise CorruptBatch(f"a base offset of {header.base_offset}")
    body = memoryview(batch)[BATCH_OVERHEAD:]
    # A batch that compaction emptied has no records, and none that were compressed either.
    codec = header.codec if len(body) or count else NO_CODEC
    data = decompress(codec, body, max_bytes)
    if count * MIN_RECORD_BYTES > len(data):
        raise CorruptBatch(f"{count} records cannot be in {len(data)} bytes")
    return header, data


def _spans(header: BatchHeader, data: bytes) -> list[Span]:
    return record_loop.scan(data, header.record_count, header.last_offset_delta)


def _key_of(data: bytes, span: Span, base_offset: int) -> RecordKey:
    _, _, _, delta, key_at, key_size, _, value_size, _ = span
    key = data[key_at : key_at + key_size] if key_size >= 0 else None
    return RecordKey(base_offset + delta, key, value_size < 0)


# --- making ------------------------------------------------------------------------------------


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: int = NO_CODEC,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = 0,
) -> bytearray:
    """One batch of at least one record. Records are numbered from `base_offset`, not by their own offsets."""
    if not records:
        raise InvalidRecord("a batch needs a record")
    count, base_ms = len(records), records[0].timestamp_ms
    if not -_MAX_TIMESTAMP_MS <= base_ms <= _MAX_TIMESTAMP_MS:
        raise InvalidTimestamp(f"a timestamp of {base_ms} ms")
    out = bytearray(BATCH_OVERHEAD)
    max_ms = record_loop.encode(out, records, base_ms)
    attributes = codec | TRANSACTIONAL_BIT if transactional else codec
    producer = (producer_id, producer_epoch, base_sequence)
    return _finish(out, base_offset, leader_epoch, (attributes, count - 1, base_ms, max_ms, *producer, count))


def control_batch(
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    timestamp_ms: int,
    coordinator_epoch: int,
    leader_epoch: int,
) -> bytearray:
    """The marker that ends a transaction in a partition, as Kafka writes it."""
    out = bytearray(BATCH_OVERHEAD)
    key = _CONTROL_KEY.pack(0, _COMMIT if commit else _ABORT)
    record_loop.append_record(out, 0, 0, key, _MARKER_VALUE.pack(0, coordinator_epoch), None)
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    signed = (attributes, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, -1, 1)
    return _finish(out, base_offset, leader_epoch, signed)


def empty_batch(base_offset: int, last_offset: int, leader_epoch: int) -> bytearray:
    """No record, and never one, at these offsets: readers step over it, as over what compaction leaves."""
    last_delta = last_offset - base_offset
    if not 0 <= last_delta <= _MAX_OFFSET_DELTA:
        raise InvalidRecord(f"offsets {base_offset} to {last_offset} are not those of one batch")
    signed = (NO_CODEC, last_delta, NO_TIMESTAMP_MS, NO_TIMESTAMP_MS, -1, -1, -1, 0)
    return _finish(bytearray(BATCH_OVERHEAD), base_offset, leader_epoch, signed)


# attributes, last offset delta, base and max timestamp, producer id, epoch and sequence, record count
_Signed = tuple[int, int, int, int, int, int, int, int]


def _finish(out: bytearray, base_offset: int, leader_epoch: int, signed: _Signed) -> bytearray:
    """`out` is room for the header, then plain records: compress those as `signed` says, write the header."""
    codec = signed[0] & CODEC_MASK
    if codec != NO_CODEC:
        out[BATCH_OVERHEAD:] = compress(codec, out[BATCH_OVERHEAD:])
    HEADER.pack_into(out, 0, base_offset, len(out) - LENGTH_END, leader_epoch, MAGIC, 0, *signed)
    seal(out)
    return out


def finish_batch(out: bytearray, base_offset: int, leader_epoch: int, count: int, at_ms: int) -> bytearray:
    """`out` is room for a header, then `count` plain records of one time: make it a batch, in place."""
    return _finish(out, base_offset, leader_epoch, (NO_CODEC, count - 1, at_ms, at_ms, -1, -1, -1, count))


# --- changing ----------------------------------------------------------------------------------


def slice_batch(
    batch: Data,
    first: int,
    count: int,
    base_offset: int,
    header_overlay: Headers = (),
    *,
    key: bytes | None = None,
    leader_epoch: int = 0,
    max_bytes: int = MAX_RECORDS_BYTES,
) -> bytearray:
    """Records `first` to `first + count - 1` (by position in the batch) as a batch of their own.

    This is what a link to part of a body reads as. The same arguments always give the same bytes: it is not
    compressed, since a compressor may change its mind between versions. It has no producer and no
    transaction. `header_overlay` is added after each record's headers, `key` replaces each record's key.
    """
    header, data = open_records(batch, max_bytes)
    if header.is_control:
        raise InvalidRecord("a control batch cannot be sliced")
    if first < 0 or count <= 0 or first + count > header.record_count:
        raise InvalidRecord(f"records {first} to {first + count - 1} of {header.record_count}")
    spans = _spans(header, data)[first : first + count]
    base_delta = spans[0][2]
    out = bytearray(BATCH_OVERHEAD)
    for index, (_, stop, time_delta, _, key_at, key_size, value_at, value_size, headers_at) in enumerate(
        spans
    ):
        own_key = data[key_at : key_at + key_size] if key_size >= 0 else None
        value = data[value_at : value_at + value_size] if value_size >= 0 else None
        headers = data[headers_at:stop]
        if header_overlay:
            headers = record_loop.add_headers(headers, header_overlay)
        record_loop.append_record(
            out, time_delta - base_delta, index, own_key if key is None else key, value, headers
        )
    max_ms = header.max_timestamp_ms
    if not header.is_log_append_time:
        max_ms = header.base_timestamp_ms + max(span[2] for span in spans)
    base_ms = header.base_timestamp_ms + base_delta
    attributes = header.attributes & APPEND_TIME_BIT
    return _finish(
        out, base_offset, leader_epoch, (attributes, count - 1, base_ms, max_ms, -1, -1, -1, count)
    )


def recompressed(batch: Data, codec: int, max_bytes: int = MAX_RECORDS_BYTES) -> bytearray:
    """The same batch, which `check_records` has passed, with its records compressed in another way."""
    header, data = open_records(batch, max_bytes)
    attributes = header.attributes & ~CODEC_MASK | codec
    signed = (attributes, *header[6:])  # all that follows the attributes stays
    return _finish(bytearray(BATCH_OVERHEAD) + data, header.base_offset, header.leader_epoch, signed)


def filter_batch(
    batch: Data,
    keep: Sequence[bool] | Callable[[RecordKey], bool],
    *,
    keep_empty: bool = False,
    delete_horizon_ms: int | None = None,
    max_bytes: int = MAX_RECORDS_BYTES,
) -> bytearray | None:
    """The batch without the records that `keep` says no to, or None when none is left.

    Offsets, producer, sequence and last offset stay, so that readers and producer state see no difference but
    the missing records; the codec stays too. With `keep_empty`, a batch of no records remains instead of
    None: it still tells a producer's last sequence. `delete_horizon_ms` marks when tombstones may go.
    """
    header, data = open_records(batch, max_bytes)
    spans = _spans(header, data)
    if callable(keep):
        kept = [span for span in spans if keep(_key_of(data, span, header.base_offset))]
    else:
        if len(keep) != len(spans):
            raise InvalidRecord(f"{len(keep)} verdicts on {len(spans)} records")
        kept = [span for span, stays in zip(spans, keep, strict=True) if stays]
    if not kept:
        return _emptied(header) if keep_empty else None
    if len(kept) == len(spans) and delete_horizon_ms is None:
        return bytearray(batch)

    attributes, base_ms, out = header.attributes, header.base_timestamp_ms, bytearray(BATCH_OVERHEAD)
    if delete_horizon_ms is None or (header.has_delete_horizon and base_ms == delete_horizon_ms):
        # Deltas are to a base that does not move: records are copied as they lie.
        for span in kept:
            out += data[span[0] : span[1]]
    else:
        moved_ms = base_ms - delete_horizon_ms
        attributes, base_ms = attributes | DELETE_HORIZON_BIT, delete_horizon_ms
        for _, stop, time_delta, delta, key_at, key_size, value_at, value_size, headers_at in kept:
            record_key = data[key_at : key_at + key_size] if key_size >= 0 else None
            value = data[value_at : value_at + value_size] if value_size >= 0 else None
            record_loop.append_record(
                out, time_delta + moved_ms, delta, record_key, value, data[headers_at:stop]
            )
    max_ms = header.max_timestamp_ms
    if not header.is_log_append_time:
        max_ms = header.base_timestamp_ms + max(span[2] for span in kept)
    return _rewrite(header, out, (attributes, base_ms, max_ms, len(kept)))


def _emptied(header: BatchHeader) -> bytearray:
    """A header alone: no codec and no base timestamp, everything else as it was."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    changed = (attributes, NO_TIMESTAMP_MS, header.max_timestamp_ms, 0)
    return _rewrite(header, bytearray(BATCH_OVERHEAD), changed)


def _rewrite(header: BatchHeader, out: bytearray, changed: tuple[int, int, int, int]) -> bytearray:
    attributes, base_ms, max_ms, count = changed
    producer = (header.producer_id, header.producer_epoch, header.base_sequence)
    signed = (attributes, header.last_offset_delta, base_ms, max_ms, *producer, count)
    return _finish(out, header.base_offset, header.leader_epoch, signed)
