"""Any records come back from a batch, and no bytes at all make the codec do anything but say so."""

import contextlib
import importlib.util
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.model import batch as batch_module
from mainstem.model import record_check, record_loop
from mainstem.model.batch import (
    BATCH_OVERHEAD,
    HEADER,
    check_batch,
    crc_matches,
    iter_batches,
    read_header,
    seal,
)
from mainstem.model.compression import compress, decompress
from mainstem.model.errors import CorruptBatch, InvalidRecord, MainstemError
from mainstem.model.records import (
    Record,
    check_records,
    decode_records,
    encode_batch,
    filter_batch,
    first_at_or_after,
    max_timestamp_record,
    open_records,
    record_keys,
    slice_batch,
)

MAX = 1 << 20
CODECS = st.integers(0, 4)
OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
TIMES = st.integers(-1, 2**41) | st.integers(-(2**60), 2**60)
NAMES = st.text(max_size=20)
HEADERS = st.lists(st.tuples(NAMES, OPTIONAL_BYTES), max_size=4).map(tuple)
RECORDS = st.lists(
    st.builds(Record, st.just(0), TIMES, OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS), min_size=1, max_size=80
)
OFFSETS = st.integers(0, 2**60)


def numbered(records: list[Record], base_offset: int) -> list[Record]:
    return [
        Record(base_offset + i, record.timestamp_ms, record.key, record.value, record.headers)
        for i, record in enumerate(records)
    ]


@given(RECORDS, CODECS, OFFSETS)
def test_any_records_come_back(records, codec, base_offset):
    batch = encode_batch(records, codec=codec, base_offset=base_offset)
    assert check_batch(memoryview(batch), len(batch)).record_count == len(records)
    check_records(batch, MAX)
    expected = numbered(records, base_offset)
    assert decode_records(bytes(batch), MAX) == expected
    times = [(record.offset, record.timestamp_ms) for record in expected]
    assert max_timestamp_record(batch, MAX) == max(times, key=lambda pair: (pair[1], -pair[0]))
    assert [key[:2] for key in record_keys(batch, MAX)] == [
        (record.offset, record.key) for record in expected
    ]


@given(RECORDS, CODECS, TIMES)
def test_look_up_by_time_is_that_of_the_records(records, codec, asked):
    later = [(i, record.timestamp_ms) for i, record in enumerate(records) if record.timestamp_ms >= asked]
    assert first_at_or_after(encode_batch(records, codec=codec), asked, MAX) == (later[0] if later else None)


@given(RECORDS, CODECS, st.data())
def test_any_slice_is_its_records_with_the_overlay(records, codec, data):
    first = data.draw(st.integers(0, len(records) - 1))
    count = data.draw(st.integers(1, len(records) - first))
    overlay = data.draw(HEADERS)
    part = slice_batch(encode_batch(records, codec=codec), first, count, 77, overlay)
    assert crc_matches(part)
    check_records(part, MAX)
    wanted = numbered(records[first : first + count], 77)
    assert decode_records(part, MAX) == [
        Record(record.offset, record.timestamp_ms, record.key, record.value, record.headers + overlay)
        for record in wanted
    ]


@given(RECORDS, st.data())
def test_records_are_picked_by_their_number(records, data):
    _, opened = open_records(encode_batch(records))
    numbers = sorted(data.draw(st.sets(st.integers(0, len(records) - 1))))
    spans = record_loop.scan(opened, len(records), len(records) - 1)
    assert record_loop.pick(opened, numbers) == [spans[number] for number in numbers]
    with pytest.raises(CorruptBatch):
        record_loop.pick(opened, [len(records)])
    with contextlib.suppress(CorruptBatch):
        record_loop.pick(opened[: data.draw(st.integers(0, len(opened)))], numbers)


@given(RECORDS, CODECS, st.data(), st.none() | st.integers(-1, 2**45))
def test_any_filter_leaves_exactly_the_records_kept(records, codec, data, horizon_ms):
    keep = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    batch = encode_batch(
        records, codec=codec, base_offset=50, producer_id=3, producer_epoch=0, base_sequence=9
    )
    kept = filter_batch(batch, keep, keep_empty=True, delete_horizon_ms=horizon_ms)
    assert crc_matches(kept)
    header = read_header(kept)
    assert (header.base_offset, header.last_offset) == (50, 49 + len(records))
    wanted = [record for record, stays in zip(numbered(records, 50), keep, strict=True) if stays]
    assert decode_records(kept, MAX) == wanted


@given(RECORDS, CODECS, st.data())
def test_a_batch_cut_anywhere_is_refused(records, codec, data):
    batch = bytes(encode_batch(records, codec=codec))
    cut = batch[: data.draw(st.integers(0, len(batch) - 1))]
    assert list(iter_batches(cut)) == []
    try:
        check_batch(memoryview(cut), MAX)
    except (CorruptBatch, InvalidRecord):
        return
    raise AssertionError("accepted")


@given(RECORDS, CODECS, st.data())
def test_any_flipped_byte_is_noticed_or_lies_outside_the_crc(records, codec, data):
    whole = encode_batch(records, codec=codec)
    batch = bytearray(whole)
    at = data.draw(st.integers(0, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    try:
        check_batch(memoryview(batch), MAX)
    except MainstemError:
        return
    assert at < 8 or 12 <= at < 16  # base offset and leader epoch: the broker writes those
    assert batch[16:] == whole[16:]


@given(RECORDS, CODECS, st.data())
def test_damage_under_a_valid_crc_is_corrupt_or_still_decodes(records, codec, data):
    """Somebody who computes the crc can send anything; it must cost an error, not the process."""
    batch = encode_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(21, len(batch) - 1))
        batch[at] ^= data.draw(st.integers(1, 255))
    seal(batch)
    for read in (decode_records, check_records, record_keys, max_timestamp_record):
        with contextlib.suppress(MainstemError):
            read(batch, MAX)


@given(st.binary(max_size=200), st.integers(-5, 2**31 - 1), CODECS)
def test_any_bytes_at_all_are_records_or_corrupt(data, count, codec):
    packed = compress(codec, data)
    batch = bytearray(BATCH_OVERHEAD) + packed
    HEADER.pack_into(batch, 0, 0, len(batch) - 12, 0, 2, 0, codec, max(count, 0), 0, 0, -1, -1, -1, count)
    seal(batch)
    tracemalloc.start()
    try:
        assert len(decode_records(batch, MAX)) == count
    except CorruptBatch:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # zstd data without a size may take the limit itself; a lying count must not take more.
    assert peak < MAX + 256 * 1024


@given(st.binary(max_size=300), st.integers(1, 4), st.integers(0, 5000))
def test_any_bytes_at_all_decompress_within_the_limit_or_are_corrupt(data, codec, max_bytes):
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, max_bytes)) <= max_bytes


@given(st.binary(max_size=400), st.integers(1, 4), st.data())
def test_damaged_compressed_data_stays_within_the_limit(plain, codec, data):
    packed = bytearray(compress(codec, plain * 5))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, packed, 3000)) <= 3000


# --- compiled and plain are the same -----------------------------------------------------------


def plain(name: str):
    """A module's source as Python runs it, whatever is compiled."""
    source = Path(batch_module.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"plain_{name}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PLAIN, PLAIN_CHECK = plain("record_loop"), plain("record_check")


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except MainstemError as error:
        return type(error), str(error)


def varint(number: int) -> bytes:
    out = bytearray()
    PLAIN._append_varint(out, (number << 1) ^ (number >> 63))
    return bytes(out)


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 40)
PIECES = st.binary(max_size=6) | NUMBERS.map(varint) | st.just(b"\x0c\x00\x00\x00\x01\x01\x00")


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.integers(0, 4), st.integers(0, 4), st.none() | TIMES)
def test_the_loop_in_use_does_what_its_source_says(data, count, last_delta, append_ms):
    arguments = (data, count, last_delta, 2**60, -5, append_ms)
    assert outcome(record_loop.decode, *arguments) == outcome(PLAIN.decode, *arguments)
    assert outcome(record_loop.scan, data, count, last_delta) == outcome(PLAIN.scan, data, count, last_delta)


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.integers(0, 4), TIMES, st.integers(0, 4))
def test_the_check_in_use_does_what_its_source_says(data, count, since, offset):
    assert outcome(record_check.check, data, 0, 0, count) == outcome(PLAIN_CHECK.check, data, 0, 0, count)
    by_time = (data, count, since, offset)
    assert outcome(record_check.first_since, *by_time) == outcome(PLAIN_CHECK.first_since, *by_time)
    late = (data, count, offset)
    assert outcome(record_check.latest, *late) == outcome(PLAIN_CHECK.latest, *late)


@given(RECORDS)
def test_what_the_check_passes_is_what_can_be_decoded(records):
    data = bytearray()
    record_loop.encode(data, records, 0)
    half = len(records) // 2
    first_ms, first_keyless, pos = record_check.check(data, 0, 0, half)
    top_ms, keyless, end = record_check.check(data, pos, half, len(records))
    top_ms, keyless = max(first_ms, top_ms), first_keyless + keyless
    assert end == len(data)
    assert top_ms == max(record.timestamp_ms for record in records)
    positions = [at for at, record in enumerate(records) if record.key is None]
    assert keyless == len(positions)
    assert record_check.without_key(data, 0, len(records), 3) == positions[:3]


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=12).map(b"".join), st.integers(0, 4))
def test_the_check_refuses_what_cannot_be_decoded(data, count):
    """It may refuse more: a gap in the offsets, a key of less than no bytes."""
    try:
        *_, end = record_check.check(data, 0, 0, count)
    except CorruptBatch:
        return
    if end != len(data):
        return
    assert len(record_loop.decode(data, count, count - 1, 0, 0, None)) == count


@given(RECORDS)
def test_the_loop_in_use_writes_what_its_source_does(records):
    ours, theirs = bytearray(), bytearray()
    assert record_loop.encode(ours, records, 0) == PLAIN.encode(theirs, records, 0)
    assert ours == theirs
