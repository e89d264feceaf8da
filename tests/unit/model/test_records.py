"""Records inside a batch: slices, filters, markers, look-up by time, and what is refused."""

import pickle

import pytest

from mainstem.model import record_loop
from mainstem.model.batch import (
    BATCH_OVERHEAD,
    GZIP,
    HEADER,
    LZ4,
    NO_CODEC,
    SNAPPY,
    ZSTD,
    crc_matches,
    read_header,
    seal,
    stamp_append_time,
    stamp_max_timestamp,
)
from mainstem.model.compression import compress
from mainstem.model.errors import CorruptBatch, GrowsTooLarge, InvalidRecord, InvalidTimestamp
from mainstem.model.records import (
    Record,
    check_records,
    control_batch,
    decode_records,
    encode_batch,
    filter_batch,
    first_at_or_after,
    max_timestamp_record,
    read_control,
    recompressed,
    record_keys,
    slice_batch,
)

MAX = 1 << 20
CODECS = [NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD]


def numbered(count: int, **fields) -> bytearray:
    return encode_batch([Record(0, 1000 + i, b"k%d" % i, b"v%d" % i) for i in range(count)], **fields)


def with_records(data: bytes, count: int, last_delta: int | None = None, codec: int = NO_CODEC) -> bytearray:
    """A batch whose header is sound, around any bytes at all."""
    batch = bytearray(BATCH_OVERHEAD) + compress(codec, data)
    last = count - 1 if last_delta is None else last_delta
    HEADER.pack_into(batch, 0, 0, len(batch) - 12, 0, 2, 0, codec, last, 0, 0, -1, -1, -1, count)
    seal(batch)
    return batch


def test_a_record_travels_between_processes():
    record = Record(1, 2, b"k", None, (("h", None),))
    assert pickle.loads(pickle.dumps(record)) == record


def test_offsets_follow_the_base_offset_and_timestamps_their_own():
    records = decode_records(numbered(3, base_offset=50), MAX)
    assert [(record.offset, record.timestamp_ms) for record in records] == [
        (50, 1000),
        (51, 1001),
        (52, 1002),
    ]


def test_a_batch_without_records_cannot_be_made():
    with pytest.raises(InvalidRecord):
        encode_batch([])


@pytest.mark.parametrize("times", [[2**62 + 1], [-(2**62) - 1], [0, 2**62 + 1], [0, 2**63 - 1]])
def test_a_timestamp_that_is_none_is_refused(times):
    with pytest.raises(InvalidTimestamp):
        encode_batch([Record(0, time, None, None) for time in times])


def test_a_header_name_that_is_not_utf8_is_replaced_on_reading_and_kept_in_a_slice():
    raw = bytearray()
    record_loop.append_record(raw, 0, 0, b"k", b"v", b"\x02\x02\xff\x02x")
    batch = with_records(bytes(raw), 1)
    assert decode_records(batch, MAX)[0].headers == (("�", b"x"),)
    assert b"\x02\x02\xff\x02x" in slice_batch(batch, 0, 1, 0)


# --- what is refused ---------------------------------------------------------------------------

SOUND = bytes(numbered(1)[BATCH_OVERHEAD:])


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (SOUND, 2),
        (SOUND + b"\x00", 1),
        (SOUND + SOUND, 1),
        (SOUND[:-1], 1),
        (b"", 1),
        (SOUND, 2**31 - 1),
        (b"\x01" + SOUND[1:], 1),
        (b"\xff\xff\xff\xff\x0f" + SOUND[1:], 1),
        (b"\xff" * 11, 1),
        (b"\x80" * 9 + b"\x02" + SOUND, 1),
    ],
    ids=[
        "fewer records than said",
        "a byte more",
        "more records than said",
        "a byte less",
        "nothing",
        "a count of 2^31 - 1",
        "a negative length",
        "a length of 2^31 - 1",
        "a varint without end",
        "a varint of 65 bits",
    ],
)
def test_records_that_do_not_fit_their_batch_are_corrupt(data, count):
    for read in (decode_records, record_keys):
        with pytest.raises(CorruptBatch):
            read(with_records(data, count), MAX)
    with pytest.raises(InvalidRecord):
        check_records(with_records(data, count), MAX)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00\x40\x02v\x00",  # key of 32 bytes
        b"\x00\x00\x00\x01\x40v\x00",  # value of 32 bytes
        b"\x00\x00\x00\x01\x02v\x01",  # -1 headers
        b"\x00\x00\x00\x01\x02v\x40",  # 32 headers
        b"\x00\x00\x00\x01\x02v\x02\x01\x01",  # header without a name
        b"\x00\x00\x00\x01\x02v\x02\x40\x01",  # header name of 32 bytes
        b"\x00\x00\x00\x01\x02v\x02\x02n\x40",  # header value of 32 bytes
        b"\x00\x00\x00\x01\x02v\x00x",  # a byte after the headers
        b"\x00\x00\x02\x01\x02v\x00",  # offset delta 1 in a batch of one
        b"\x00\x00\x01\x01\x02v\x00",  # offset delta -1
    ],
)
def test_a_record_that_lies_about_its_parts_is_corrupt(body):
    batch = with_records(bytes([len(body) << 1]) + body, 1)
    for read in (decode_records, record_keys):
        with pytest.raises(CorruptBatch):
            read(batch, MAX)
    with pytest.raises(InvalidRecord):
        check_records(batch, MAX)


def test_offsets_must_rise():
    batch = with_records(SOUND + SOUND, 2)
    for read in (decode_records, record_keys):
        with pytest.raises(CorruptBatch, match="offset delta"):
            read(batch, MAX)
    with pytest.raises(InvalidRecord, match="offset delta"):
        check_records(batch, MAX)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_is_not_compressed_as_it_says_is_refused(codec):
    batch = numbered(3)
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(attributes=codec))
    with pytest.raises(InvalidRecord):
        check_records(batch, MAX)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_grows_beyond_the_limit_is_refused_unless_it_came_that_large(codec):
    batch = encode_batch([Record(0, 7, None, bytes(100_000))], codec=codec)
    if codec == NO_CODEC:
        assert check_records(batch, 90_000) == 7
    else:
        with pytest.raises(GrowsTooLarge, match="limit of 90000"):
            check_records(batch, 90_000)


@pytest.mark.parametrize("codec", CODECS)
def test_records_beyond_the_limit_are_refused_by_name(codec):
    batch = encode_batch([Record(0, 0, None, bytes(100_000))], codec=codec)
    with pytest.raises(CorruptBatch, match="limit of 90000"):
        decode_records(batch, 90_000)


def test_a_count_that_cannot_fit_is_refused_before_any_record_is_made():
    with pytest.raises(CorruptBatch, match="cannot be in"):
        decode_records(with_records(SOUND, 2**31 - 1, codec=ZSTD), MAX)


def test_a_producers_records_need_a_key_where_the_topic_is_compacted():
    batch = encode_batch([Record(0, 0, b"k", b"v"), Record(0, 0, None, b"v")])
    check_records(batch, MAX)
    with pytest.raises(InvalidRecord, match="no key"):
        check_records(batch, MAX, need_keys=True)


@pytest.mark.parametrize("codec", CODECS)
def test_the_greatest_timestamp_is_that_of_the_records_whatever_the_header_says(codec):
    times = (1000, 4000, 2000)
    batch = encode_batch([Record(0, at_ms, None, b"v") for at_ms in times], codec=codec)
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(max_timestamp_ms=5000))
    assert check_records(batch, MAX) == 4000
    stamp_max_timestamp(batch, 4000)
    assert crc_matches(batch)
    assert read_header(batch).max_timestamp_ms == 4000


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_found_by_time_and_offset(codec):
    times = (1000, 4000, 2000, 4000, 3000)
    batch = encode_batch([Record(0, at_ms, b"k", b"v") for at_ms in times], base_offset=70, codec=codec)
    assert first_at_or_after(batch, -(1 << 62)) == (70, 1000)
    assert first_at_or_after(batch, 2000) == (71, 4000)
    assert first_at_or_after(batch, 2000, from_offset=72) == (72, 2000)
    assert first_at_or_after(batch, 4001) is None
    assert first_at_or_after(batch, 0, from_offset=75) is None
    assert max_timestamp_record(batch) == (71, 4000)
    assert max_timestamp_record(batch, from_offset=72) == (73, 4000)
    assert max_timestamp_record(batch, from_offset=75) is None
    thinned = filter_batch(batch, lambda key: key.offset in (72, 74))
    assert first_at_or_after(thinned, 2500) == (74, 3000)
    stamp_append_time(batch, 9000)
    assert first_at_or_after(batch, 8000, from_offset=73) == (73, 9000)
    assert max_timestamp_record(batch, from_offset=71) == (71, 9000)


def test_a_batch_is_refused_for_the_first_hundred_records_without_a_key():
    batch = encode_batch([Record(0, 1, None, b"v")] * 1000)
    with pytest.raises(InvalidRecord, match="1000 records") as refused:
        check_records(batch, need_keys=True)
    assert refused.value.positions == list(range(100))


# --- slices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_slice_has_its_records_at_the_new_offset_and_no_producer(codec):
    batch = numbered(10, codec=codec, producer_id=5, producer_epoch=1, base_sequence=3, transactional=True)
    part = slice_batch(batch, 4, 3, 700, leader_epoch=8)
    header = read_header(part)
    assert crc_matches(part)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.attributes, header.leader_epoch, header.record_count) == (0, 8, 3)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1004, 1006)
    assert decode_records(part, MAX) == [
        Record(700 + i, 1004 + i, b"k%d" % (4 + i), b"v%d" % (4 + i)) for i in range(3)
    ]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("was", CODECS)
def test_a_batch_compressed_anew_differs_in_nothing_else(codec, was):
    records = [Record(0, 1000 + n, b"k%d" % n, b"v" * 100) for n in range(20)]
    producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40, "transactional": True}
    batch = encode_batch(records, base_offset=5, codec=was, leader_epoch=3, **producer)
    made = recompressed(batch, codec)
    assert crc_matches(made)
    before, after = read_header(batch), read_header(made)
    assert after.codec == codec
    assert after._replace(length=0, crc=0, attributes=0) == before._replace(length=0, crc=0, attributes=0)
    assert after.is_transactional
    assert decode_records(made) == decode_records(batch)


def test_records_without_a_key_are_named_by_their_positions():
    batch = encode_batch([Record(0, 1, None if n % 3 == 0 else b"k", b"v") for n in range(7)], codec=LZ4)
    with pytest.raises(InvalidRecord) as refused:
        check_records(batch, need_keys=True)
    assert refused.value.positions == [0, 3, 6]


def test_the_same_slice_is_the_same_bytes_whatever_the_codec_was():
    slices = {bytes(slice_batch(numbered(10, codec=codec), 2, 5, 9, (("h", b"1"),))) for codec in CODECS}
    assert len(slices) == 1


def test_an_overlay_adds_headers_at_the_end_and_may_replace_the_key():
    batch = encode_batch([Record(0, 1, b"k", b"v", (("a", b"1"),)), Record(0, 2, None, b"v")])
    part = slice_batch(batch, 0, 2, 0, (("x-death", b"q"), ("n", None)), key=b"other")
    first, second = decode_records(part, MAX)
    assert first.headers == (("a", b"1"), ("x-death", b"q"), ("n", None))
    assert second.headers == (("x-death", b"q"), ("n", None))
    assert (first.key, second.key) == (b"other", b"other")


def test_an_overlay_of_many_headers_is_counted_right():
    batch = encode_batch([Record(0, 1, b"k", b"v", tuple((f"a{i}", b"") for i in range(60)))])
    extra = tuple((f"b{i}", b"") for i in range(10))
    (record,) = decode_records(slice_batch(batch, 0, 1, 0, extra), MAX)
    assert [name for name, _ in record.headers] == [f"a{i}" for i in range(60)] + [f"b{i}" for i in range(10)]


def test_a_slice_of_an_append_time_batch_keeps_that_time():
    batch = numbered(4)
    stamp_append_time(batch, 9999)
    assert [record.timestamp_ms for record in decode_records(slice_batch(batch, 1, 2, 0), MAX)] == [
        9999,
        9999,
    ]


@pytest.mark.parametrize(("first", "count"), [(-1, 1), (0, 0), (0, 4), (3, 1), (1, -1)])
def test_a_slice_beyond_the_batch_is_refused(first, count):
    with pytest.raises(InvalidRecord):
        slice_batch(numbered(3), first, count, 0)


def test_a_marker_cannot_be_sliced():
    with pytest.raises(InvalidRecord):
        slice_batch(control_batch(0, 1, 0, True, 0, 0, 0), 0, 1, 0)


# --- filters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_filtered_batch_keeps_offsets_producer_and_codec(codec):
    batch = numbered(6, base_offset=10, codec=codec, producer_id=5, producer_epoch=1, base_sequence=3)
    kept = filter_batch(batch, [False, True, False, False, True, False])
    before, after = read_header(batch), read_header(kept)
    assert crc_matches(kept)
    assert (after.base_offset, after.last_offset, after.codec) == (10, 15, codec)
    assert after[9:12] == before[9:12]
    assert (after.record_count, after.max_timestamp_ms) == (2, 1004)
    assert [(record.offset, record.key) for record in decode_records(kept, MAX)] == [(11, b"k1"), (14, b"k4")]


def test_a_filter_can_be_a_question_about_key_and_tombstone():
    batch = encode_batch([Record(0, 0, b"a", b"1"), Record(0, 0, b"b", None), Record(0, 0, None, b"3")])
    assert [tuple(key) for key in record_keys(batch)] == [(0, b"a", False), (1, b"b", True), (2, None, False)]
    kept = filter_batch(batch, lambda record: not record.is_tombstone)
    assert [record.offset for record in decode_records(kept, MAX)] == [0, 2]


def test_a_filtered_batch_can_be_filtered_again():
    kept = filter_batch(
        filter_batch(numbered(6), lambda key: key.offset % 2 == 0), lambda key: key.offset > 1
    )
    assert [record.offset for record in decode_records(kept, MAX)] == [2, 4]


def test_a_batch_of_which_all_is_kept_is_unchanged():
    batch = numbered(3, codec=ZSTD)
    assert filter_batch(batch, [True] * 3) == batch


def test_a_batch_of_which_nothing_is_kept_is_gone_or_empty_as_asked():
    batch = numbered(3, base_offset=10, codec=ZSTD, producer_id=5, producer_epoch=1, base_sequence=3)
    assert filter_batch(batch, [False] * 3) is None
    empty = filter_batch(batch, [False] * 3, keep_empty=True)
    header = read_header(empty)
    assert crc_matches(empty)
    assert len(empty) == BATCH_OVERHEAD
    assert (header.base_offset, header.last_offset, header.last_sequence) == (10, 12, 5)
    assert (header.record_count, header.codec, header.base_timestamp_ms) == (0, NO_CODEC, -1)
    assert decode_records(empty, MAX) == []
    assert max_timestamp_record(empty) is None
    assert first_at_or_after(empty, 0) is None


def test_a_delete_horizon_moves_no_timestamp():
    batch = numbered(3)
    marked = filter_batch(batch, [True, False, True], delete_horizon_ms=77_000)
    header = read_header(marked)
    assert crc_matches(marked)
    assert header.delete_horizon_ms == 77_000
    assert read_header(batch).delete_horizon_ms is None
    assert [record.timestamp_ms for record in decode_records(marked, MAX)] == [1000, 1002]
    again = filter_batch(marked, [False, True], delete_horizon_ms=77_000)
    assert [record.timestamp_ms for record in decode_records(again, MAX)] == [1002]


def test_a_verdict_for_every_record_is_needed():
    with pytest.raises(InvalidRecord):
        filter_batch(numbered(3), [True])


# --- time and markers --------------------------------------------------------------------------


def test_look_up_by_time_finds_the_first_record_in_offset_order():
    times = [50, 20, 90, 90, 30]
    batch = encode_batch([Record(0, time, None, b"") for time in times], base_offset=100, codec=LZ4)
    assert first_at_or_after(batch, 10) == (100, 50)
    assert first_at_or_after(batch, 51) == (102, 90)
    assert first_at_or_after(batch, 91) is None
    assert max_timestamp_record(batch) == (102, 90)
    assert max_timestamp_record(batch, from_offset=103) == (103, 90)
    assert max_timestamp_record(batch, from_offset=104) == (104, 30)
    assert max_timestamp_record(batch, from_offset=105) is None


def test_look_up_by_time_with_append_time_finds_the_first_record():
    batch = numbered(3, base_offset=7)
    stamp_append_time(batch, 5000)
    assert first_at_or_after(batch, 4000) == (7, 5000)
    assert first_at_or_after(batch, 5001) is None
    assert max_timestamp_record(batch) == (7, 5000)


def test_a_batch_that_is_no_marker_is_not_read_as_one():
    with pytest.raises(CorruptBatch):
        read_control(numbered(1))
    marker = control_batch(0, 1, 0, True, 0, 0, 0)
    marker[-9] = 2  # the end of its key: a type that Kafka uses for something else
    with pytest.raises(CorruptBatch, match="type"):
        read_control(marker)
