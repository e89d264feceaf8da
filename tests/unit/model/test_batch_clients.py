"""Batches that other implementations wrote are read, and they read ours.

Java: bytes that Apache Kafka 4.3's MemoryRecords wrote, kept here. aiokafka and kafka-python: both ways.
kafka-python needs a library of its own for snappy, which we do not install; aiokafka covers it.
"""

import aiokafka.record.default_records as aio
import kafka.record.default_records as kafka_python
import pytest

from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD, check_batch, crc_matches, read_header
from mainstem.model.compression import CODEC_NAMES
from mainstem.model.records import (
    Record,
    check_records,
    control_batch,
    decode_records,
    encode_batch,
    read_control,
    slice_batch,
)

MAX = 1 << 20

BATCHES = {
    "none": (
        "000000012a05f2000000007c0000000302e1a566ee0010000000020000018bcfe5687b0000018bcfe568c80000000000"
        "00002a00070000000b0000000370000000046b313066697273742076616c75652c2066697273742076616c7565041674"
        "72616365706172656e740a30302d6162086e6f6e65010e00c5110201000012009a0104046b330100"
    ),
    "gzip": (
        "000000012a05f2000000008700000003026f01cd2e0011000000020000018bcfe5687b0000018bcfe568c80000000000"
        "00002a00070000000b000000031f8b08000000000000ff2b60606060c9363448cb2c2a2e51284bcc294dd55140e2b088"
        "95142526a7162416a5e695701918e8262671e4e5e7a532f2311c1564626460106298c5c8c2926dccc800007ddf3d694b"
        "000000"
    ),
    "snappy": (
        "000000012a05f2000000008a000000030298eeb49f0012000000020000018bcfe5687b0000018bcfe568c80000000000"
        "00002a00070000000b0000000382534e41505059000000000100000001000000454b5070000000046b31306669727374"
        "2076616c75652c201d0da804167472616365706172656e740a30302d6162086e6f6e65010e00c5110201000012009a01"
        "04046b330100"
    ),
    "lz4": (
        "000000012a05f2000000008600000003028d20c8c70013000000020000018bcfe5687b0000018bcfe568c80000000000"
        "00002a00070000000b0000000304224d1860408246000000f70670000000046b313066697273742076616c75652c200d"
        "00f01c04167472616365706172656e740a30302d6162086e6f6e65010e00c5110201000012009a0104046b3301000000"
        "0000"
    ),
    "zstd": (
        "000000012a05f200000000840000000302d55b2cd30014000000020000018bcfe5687b0000018bcfe568c80000000000"
        "00002a00070000000b0000000328b52ffd00583c0200040470000000046b313066697273742076616c75652c20041674"
        "72616365706172656e740a30302d6162086e6f6e65010e00c5110201000012009a0104046b3301000100c1984c010000"
    ),
}
MARKERS = {
    True: (
        "00000000000000630000004200000004023dc10a530030000000000000018bcfe569f40000018bcfe569f40000000000"
        "00002a0007ffffffff000000012000000008000000010c00000000000600"
    ),
    False: (
        "0000000000000063000000420000000402c9ffdc1b0030000000000000018bcfe569f40000018bcfe569f40000000000"
        "00002a0007ffffffff000000012000000008000000000c00000000000600"
    ),
}
JAVA_RECORDS = [
    Record(
        5_000_000_000,
        1_700_000_000_123,
        b"k1",
        b"first value, first value",
        (("traceparent", b"00-ab"), ("none", None)),
    ),
    Record(5_000_000_001, 1_699_999_999_000, None, b""),
    Record(5_000_000_002, 1_700_000_000_200, b"k3", None),
]
# The libraries do not compress what would not get smaller: enough of it, and alike.
RECORDS = [
    Record(
        offset,
        1_700_000_000_000 + (offset * 37) % 100 - 50,
        None if offset % 4 == 0 else b"key-%d" % offset,
        None if offset % 7 == 3 else b"the value of record %d " % offset * (offset % 9),
        (("trace", b"%d" % offset), ("empty", b""), ("none", None), ("naïve", b"x"))
        if offset % 3 == 0
        else (),
    )
    for offset in range(300)
]
BOTH = [(aio, codec) for codec in (NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD)]
BOTH += [(kafka_python, codec) for codec in (NO_CODEC, GZIP, LZ4, ZSTD)]


def builder_of(library):
    return getattr(library, "_DefaultRecordBatchBuilderPy", None) or library.DefaultRecordBatchBuilder


def as_record(record) -> Record:
    return Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))


@pytest.mark.parametrize("name", BATCHES)
def test_what_java_wrote_is_read(name):
    batch = bytes.fromhex(BATCHES[name])
    header = check_batch(memoryview(batch), MAX)
    check_records(batch, MAX)
    assert CODEC_NAMES[header.codec] == name
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 7, 11)
    assert (header.leader_epoch, header.max_timestamp_ms) == (3, 1_700_000_000_200)
    assert decode_records(batch, MAX) == JAVA_RECORDS


def test_an_uncompressed_batch_is_byte_for_byte_what_java_writes():
    batch = encode_batch(
        JAVA_RECORDS,
        base_offset=5_000_000_000,
        producer_id=42,
        producer_epoch=7,
        base_sequence=11,
        transactional=True,
        leader_epoch=3,
    )
    assert batch.hex() == BATCHES["none"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_marker_is_byte_for_byte_what_java_writes(commit):
    marker = control_batch(99, 42, 7, commit, 1_700_000_000_500, 6, 4)
    assert marker.hex() == MARKERS[commit]
    assert read_control(marker) is commit


@pytest.mark.parametrize(("library", "codec"), BOTH)
def test_what_a_python_client_writes_is_read(library, codec):
    builder = builder_of(library)(2, codec, 1, 42, 7, 11, 1 << 20)
    for record in RECORDS:
        builder.append(
            record.offset, record.timestamp_ms, record.key, record.value, headers=list(record.headers)
        )
    batch = bytes(builder.build())
    header = check_batch(memoryview(batch), MAX)
    check_records(batch, MAX)
    assert header.codec == codec
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 7, 11)
    assert decode_records(batch, MAX) == RECORDS


@pytest.mark.parametrize(("library", "codec"), BOTH)
def test_what_we_write_a_python_client_reads(library, codec):
    batch = encode_batch(RECORDS, codec=codec, producer_id=42, producer_epoch=7, base_sequence=11)
    assert crc_matches(batch)
    read = library.DefaultRecordBatch(bytes(batch))
    assert read.validate_crc()
    assert read.max_timestamp == read_header(batch).max_timestamp_ms
    assert [as_record(record) for record in read] == RECORDS


@pytest.mark.parametrize("library", [aio, kafka_python])
def test_a_slice_is_a_batch_like_any_other_to_a_python_client(library):
    part = slice_batch(encode_batch(RECORDS, codec=ZSTD), 20, 5, 1000, (("x-death", b"queue"),))
    read = library.DefaultRecordBatch(bytes(part))
    assert read.validate_crc()
    records = [as_record(record) for record in read]
    assert [record.offset for record in records] == [1000, 1001, 1002, 1003, 1004]
    assert [record.timestamp_ms for record in records] == [record.timestamp_ms for record in RECORDS[20:25]]
    assert all(record.headers[-1] == ("x-death", b"queue") for record in records)


@pytest.mark.parametrize("library", [aio, kafka_python])
@pytest.mark.parametrize("commit", [True, False])
def test_a_python_client_knows_our_markers(library, commit):
    read = library.DefaultRecordBatch(bytes(control_batch(5, 42, 7, commit, 1000, 6, 4)))
    assert read.is_control_batch
    (record,) = read
    assert record.key == (b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00")
