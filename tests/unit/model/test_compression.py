"""The four codecs: what we write is what clients read, and no input makes us spend more than the limit."""

import struct
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from mainstem.model.compression import CODEC_NAMES, compress, decompress
from mainstem.model.errors import CorruptBatch, UnsupportedCompression

CODECS = sorted(CODEC_NAMES)
COMPRESSING = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"".join(b"line %d of a text that compresses\n" % i for i in range(5000))
LIMIT = 1 << 20
ZEROES = bytes(64 << 20)


def zstd_without_size(data: bytes, level: int = 3) -> bytes:
    packer = zstandard.ZstdCompressor(level=level, write_content_size=False).compressobj()
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "byte", "text"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_compressed_comes_back(codec, data, kind):
    packed = compress(codec, kind(data))
    assert decompress(codec, kind(packed), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_inclusive(codec):
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatch, match=str(len(TEXT) - 1)):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_cut_or_extended_stream_is_corrupt(codec):
    packed = compress(codec, TEXT)
    for wrong in (b"", packed[:7], packed[: len(packed) // 2], packed[:-1], packed + b"x"):
        with pytest.raises(CorruptBatch):
            decompress(codec, wrong, LIMIT)


def test_an_unknown_codec_is_unsupported():
    with pytest.raises(UnsupportedCompression):
        compress(5, b"")
    with pytest.raises(UnsupportedCompression):
        decompress(5, b"", LIMIT)


def test_snappy_is_read_as_one_raw_block_too():
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), LIMIT) == TEXT


def test_snappy_is_written_in_xerial_framing():
    packed = compress(SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    (size,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == TEXT[: 32 * 1024]


def test_xerial_version_fields_of_the_wrong_byte_order_are_let_through():
    packed = bytearray(compress(SNAPPY, TEXT))
    packed[8:16] = struct.pack("<ii", 1, 1)
    assert decompress(SNAPPY, packed, LIMIT) == TEXT


@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1])
def test_a_xerial_block_of_impossible_size_is_corrupt(size):
    packed = bytearray(compress(SNAPPY, TEXT))
    struct.pack_into(">i", packed, 16, size)
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, packed, LIMIT)


def test_lz4_blocks_are_independent_as_java_needs_them():
    assert lz4.frame.get_frame_info(compress(LZ4, TEXT))["block_linked"] is False


def test_zstd_without_an_announced_size_is_read_within_the_limit():
    packed = zstd_without_size(TEXT)
    assert decompress(ZSTD, packed, len(TEXT)) == TEXT
    for wrong, limit in ((packed[:-1], LIMIT), (packed, len(TEXT) - 1)):
        with pytest.raises(CorruptBatch):
            decompress(ZSTD, wrong, limit)


BOMBS = {
    "gzip": (GZIP, lambda: zlib.compress(ZEROES, 9, 31)),
    "snappy": (SNAPPY, lambda: compress(SNAPPY, ZEROES)),
    "snappy-raw": (SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(ZEROES))),
    "snappy-lie": (SNAPPY, lambda: b"\xff\xff\xff\xff\x0f\x00abc"),
    "lz4": (LZ4, lambda: compress(LZ4, ZEROES)),
    "lz4-with-size": (LZ4, lambda: lz4.frame.compress(ZEROES)),
    "zstd": (ZSTD, lambda: compress(ZSTD, ZEROES)),
    "zstd-without-size": (ZSTD, lambda: zstd_without_size(ZEROES)),
    "zstd-large-window": (ZSTD, lambda: zstd_without_size(ZEROES, level=22)),
    "zstd-lie": (ZSTD, lambda: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + b"\x01\x00\x00"),
}


def resident_peak_bytes() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def forget_resident_peak() -> None:
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_no_more_python_memory_than_the_limit_allows(name):
    codec, make = BOMBS[name]
    bomb = make()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(codec, bomb, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # gzip keeps the input it did not need; the rest is output, held twice while it grows.
    assert peak < 4 * LIMIT + len(bomb)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_does_not_make_the_process_grow(name):
    """tracemalloc does not see what C libraries take for themselves; the kernel does."""
    codec, make = BOMBS[name]
    bomb = make()
    try:
        forget_resident_peak()
    except OSError as error:
        pytest.skip(f"this kernel does not reset the resident peak: {error}")
    before = resident_peak_bytes()
    with pytest.raises(CorruptBatch):
        decompress(codec, bomb, LIMIT)
    assert resident_peak_bytes() - before < 16 * LIMIT


def test_plain_records_have_the_same_limit():
    with pytest.raises(CorruptBatch, match="limit"):
        decompress(NO_CODEC, b"xx", 1)
