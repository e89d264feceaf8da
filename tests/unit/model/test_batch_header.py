"""The batch header: what a producer may send, and what placing a batch changes."""

import pytest
from fastcrc.crc32 import iscsi as crc32c

from mainstem.model.batch import (
    APPEND_TIME_BIT,
    BATCH_OVERHEAD,
    CONTROL_BIT,
    CRC_PIECE_BYTES,
    DELETE_HORIZON_BIT,
    HEADER,
    SIGNED_FROM,
    BatchHeader,
    check_batch,
    crc_matches,
    iter_batches,
    place_batch,
    placed_prefix,
    read_header,
    seal,
    stamp_append_time,
)
from mainstem.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedBatchFormat,
    UnsupportedCompression,
)
from mainstem.model.records import Record, decode_records, encode_batch

MAX = 1_000_000


def three_records(**fields) -> bytearray:
    return encode_batch([Record(0, 1000 + i, b"k%d" % i, b"v") for i in range(3)], **fields)


def changed(**fields) -> memoryview:
    """A sound batch but for `fields`, with a crc that matches."""
    batch = three_records()
    header = read_header(batch)._replace(**fields)
    HEADER.pack_into(batch, 0, *header)
    seal(batch)
    return memoryview(batch)


def test_a_sound_batch_is_accepted_and_its_header_returned():
    batch = three_records(producer_id=9, producer_epoch=2, base_sequence=5, transactional=True)
    header = check_batch(memoryview(batch), MAX)
    assert header == read_header(batch)
    assert isinstance(header, BatchHeader)
    assert header.size == len(batch)
    assert (header.last_offset, header.record_count, header.last_sequence) == (2, 3, 7)
    assert header.is_transactional
    assert not any((header.is_control, header.is_log_append_time, header.has_delete_horizon))


def test_the_struct_covers_the_header_exactly():
    assert HEADER.size == BATCH_OVERHEAD


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"magic": 0}, UnsupportedBatchFormat),
        ({"magic": 1}, UnsupportedBatchFormat),
        ({"magic": 3}, CorruptBatch),
        ({"magic": -1}, CorruptBatch),
        ({"length": 10}, CorruptBatch),
        ({"length": -5}, CorruptBatch),
        ({"length": 2**31 - 1}, InvalidRecord),
        ({"length": 60}, InvalidRecord),
        ({"record_count": 0}, InvalidRecord),
        ({"record_count": -1}, InvalidRecord),
        ({"record_count": 2**31 - 1}, InvalidRecord),
        ({"last_offset_delta": 3}, InvalidRecord),
        ({"last_offset_delta": -1}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCompression),
        ({"attributes": 7}, UnsupportedCompression),
        ({"attributes": CONTROL_BIT}, InvalidRecord),
        ({"attributes": APPEND_TIME_BIT}, InvalidTimestamp),
        ({"attributes": DELETE_HORIZON_BIT}, InvalidRecord),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, InvalidRecord),
    ],
)
def test_what_a_producer_may_not_send_is_refused_with_kafkas_error(fields, error):
    with pytest.raises(error):
        check_batch(changed(**fields), MAX)


def test_a_wrong_crc_is_corrupt():
    batch = three_records()
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="crc"):
        check_batch(memoryview(batch), MAX)
    assert not crc_matches(batch)


@pytest.mark.parametrize("over", [-1, 0, 1, CRC_PIECE_BYTES, 3 * CRC_PIECE_BYTES + 7])
def test_a_crc_made_in_pieces_is_that_of_the_whole(over):
    signed = bytes(at * 7 % 251 for at in range(CRC_PIECE_BYTES + over))
    batch = bytearray(SIGNED_FROM) + signed
    seal(batch)
    assert int.from_bytes(batch[17:21], "big") == crc32c(signed)
    assert crc_matches(batch)
    batch[-1] ^= 1
    assert not crc_matches(batch)


def test_the_crc_is_castagnolis():
    assert crc32c(b"123456789") == crc32c(b"56789", crc32c(b"1234")) == 0xE3069283


def test_two_batches_or_trailing_bytes_or_missing_ones_are_refused():
    batch = bytes(three_records())
    for wrong in (batch + batch, batch + b"\x00", batch[:-1], batch[:60], batch[:5], b""):
        with pytest.raises(InvalidRecord):
            check_batch(memoryview(wrong), MAX)


def test_a_message_set_of_the_old_format_too_short_for_a_batch_is_unsupported():
    old = bytes(8) + (30).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(25)
    with pytest.raises(UnsupportedBatchFormat):
        check_batch(memoryview(old), MAX)


def test_the_size_limit_is_inclusive():
    batch = memoryview(three_records())
    check_batch(batch, len(batch))
    with pytest.raises(BatchTooLarge):
        check_batch(batch, len(batch) - 1)


def test_sequences_wrap_after_the_largest_one():
    batch = three_records(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0


def test_placing_a_batch_leaves_its_crc_valid():
    batch = three_records()
    before = bytes(batch)
    place_batch(batch, 2**40, 17)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (2**40, 17)
    assert crc_matches(batch)
    assert batch[16:] == before[16:]
    assert placed_prefix(header, 2**40, 17) == batch[:16]


def test_a_batch_inside_a_larger_buffer_is_placed_at_its_position():
    one = three_records()
    both = bytearray(one + one)
    place_batch(both, 30, 4, pos=len(one))
    assert [header.base_offset for _, header in iter_batches(both)] == [0, 30]


def test_append_time_becomes_the_timestamp_of_every_record():
    batch = three_records()
    stamp_append_time(batch, 123_456)
    header = read_header(batch)
    assert header.is_log_append_time
    assert header.max_timestamp_ms == 123_456
    assert crc_matches(batch)
    assert {record.timestamp_ms for record in decode_records(batch, MAX)} == {123_456}


def test_batches_are_found_one_after_another_and_a_partial_last_one_is_left_out():
    one, two = three_records(base_offset=10), three_records(base_offset=13)
    both = bytes(one + two)
    for end in range(len(both) + 1):
        found = [(pos, header.base_offset) for pos, header in iter_batches(both[:end])]
        want = [(0, 10)] * (end >= len(one)) + [(len(one), 13)] * (end == len(both))
        assert found == want


def test_a_length_that_no_batch_can_have_stops_the_search():
    with pytest.raises(CorruptBatch):
        list(iter_batches(changed(length=48)))
