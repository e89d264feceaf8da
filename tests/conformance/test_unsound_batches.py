"""Batches whose crc is right and whose records are not: refused for good, and so no reader ever meets one."""

import struct
from collections.abc import Callable
from functools import partial

import lz4.frame
import pytest
from fastcrc.crc32 import iscsi as crc32c
from kafka_kit import Wire, create_topic, read
from zstandard import ZstdCompressor

from mainstem.client import Client, ClientSettings, admin, parse_bootstrap
from mainstem.model.compression import compress
from mainstem.model.records import Record, encode_batch
from mainstem.wire.kafka.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

INVALID_RECORD = 87
LATEST_BY_TIME = -3
GOOD = b"\x0e\x00\x00\x00\x01\x02v\x00"  # no key, value "v"


LINKED = partial(lz4.frame.compress, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True)
UNSIZED = ZstdCompressor(write_content_size=False).compress


def batch(
    payload: bytes,
    count: int,
    *,
    codec: int = 0,
    attributes: int = 0,
    max_ms: int = 1000,
    pack: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """Whatever bytes as records, in a batch whose own fields are right."""
    head = bytearray(encode_batch([Record(0, 1000, None, b"v")])[:61])
    if codec:
        payload = pack(payload) if pack is not None else compress(codec, payload)
    struct.pack_into(">i", head, 8, 61 - 12 + len(payload))
    struct.pack_into(">h", head, 21, codec | attributes)
    struct.pack_into(">i", head, 23, count - 1)
    struct.pack_into(">q", head, 35, max_ms)
    struct.pack_into(">i", head, 57, count)
    struct.pack_into(">I", head, 17, crc32c(bytes(head[21:]) + payload))
    return bytes(head) + payload


UNSOUND = {
    "more records than there are": batch(GOOD, 5),
    "fewer records than there are": batch(GOOD + GOOD.replace(b"\x00\x00\x00", b"\x00\x00\x02", 1), 1),
    "bytes after the last record": batch(GOOD + b"x", 1),
    "no record at all": batch(b"", 1),
    "a negative length": batch(b"\x01" + GOOD[1:], 1),
    "a length beyond the batch": batch(b"\x7e" + GOOD[1:], 1),
    "a length of eleven bytes": batch(b"\xff" * 11 + GOOD[1:], 1),
    "a value beyond the record": batch(b"\x0e\x00\x00\x00\x01\x7ev\x00", 1),
    "a negative number of headers": batch(b"\x0e\x00\x00\x00\x01\x02v\x01", 1),
    "offsets with a gap": batch(GOOD + b"\x0e\x00\x00\x08\x01\x02v\x00", 2, codec=1),
    "garbage": batch(bytes(range(200)), 3),
    "not compressed as it says": batch(GOOD, 1, attributes=2),
    # What follows stops Java's consumers, though others would read it.
    "a size of six bytes": batch(b"\x98\x80\x80\x80\x80\x00" + GOOD[1:] + bytes(5), 1),
    "an offset of six bytes": batch(b"\x18\x00\x00\x80\x80\x80\x80\x80\x00\x01\x02v\x00", 1),
    "a value's size of six bytes": batch(b"\x18\x00\x00\x00\x01\x82\x80\x80\x80\x80\x00v\x00", 1),
    "lz4 blocks that depend on each other": batch(
        b"\x8e\xea\x30\x00\x00\x00\x01\x80\xea\x30" + bytes(400_000) + b"\x00", 1, codec=3, pack=LINKED
    ),
    "zstd with bytes behind it": batch(GOOD, 1, codec=4, pack=lambda data: UNSIZED(data) + b"garbage"),
    "zstd with another frame behind it": batch(GOOD, 1, codec=4, pack=lambda data: UNSIZED(data) * 2),
    "zstd that is cut": batch(GOOD, 1, codec=4, pack=lambda data: UNSIZED(data)[:-2]),
    "garbage, compressed": batch(bytes(range(200)), 3, codec=4),
    "a transaction of nobody": batch(GOOD, 1, attributes=0x10),
}


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
@pytest.mark.parametrize("bad", UNSOUND.values(), ids=UNSOUND.keys())
def test_a_batch_that_no_reader_could_read_is_refused_for_good(address, topic, bad, cleanup):
    with Client(ClientSettings(parse_bootstrap(address))) as client:
        admin.create_topic(client, topic, 1, {"cleanup.policy": cleanup})
    sound = bytes(encode_batch([Record(0, 1000, b"k", b"sound")]))
    with Wire(address) as wire:
        assert wire.produce(topic, sound).error_code == 0
        refused = wire.produce(topic, bad)
        assert (refused.error_code, refused.base_offset) == (INVALID_RECORD, -1)
        assert wire.produce(topic, sound).error_code == 0
    assert read(address, topic, 2) == ["sound", "sound"]


@pytest.mark.parametrize("codec", [0, 4])
def test_the_greatest_timestamp_is_what_the_records_have(address, topic, codec):
    """Kafka writes it anew too: look-ups by time and retention rest on it."""
    create_topic(address, topic)
    with Wire(address) as wire:
        lying = batch(GOOD, 1, codec=codec, max_ms=4_000_000_000_000)
        assert wire.produce(topic, lying).error_code == 0
        asked = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST_BY_TIME)]
        )
        (found,) = wire.ask(ListOffsetsRequest(topics=[asked]), 7).topics[0].partitions
        assert (found.offset, found.timestamp) == (0, 1000)
    assert read(address, topic, 1) == ["v"]
