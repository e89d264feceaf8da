"""The four codecs a batch's records can be compressed with.

Output is bounded while it is made, never after: a few bytes of input can stand for gigabytes. Input must be
one stream (gzip member, lz4 frame, zstd frame), as every Kafka client writes it; a cut one is CorruptBatch,
and so are trailing bytes. Java's reader would take some of several streams.

Snappy comes in two shapes. Java and the Python clients write the xerial framing, librdkafka and Go write one
raw block; all read both but Java of old, so the xerial framing is what we write:

     0  magic    82 'S' 'N' 'A' 'P' 'P' 'Y' 00
     8  version  i32 |  1 (some writers use little-endian here: not looked at)
    12  lowest   i32 |  1
    16  blocks       |  each: i32 size in bytes, one raw snappy block of at most 32 KiB when decompressed
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from struct import Struct

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard

from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from mainstem.model.errors import CorruptBatch, GrowsTooLarge, UnsupportedCompression

Data = bytes | bytearray | memoryview

CODEC_NAMES = {NO_CODEC: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_SIZE = Struct(">i")
_GZIP_WINDOW_BITS = 31  # 15 bits of window, plus 16 for a gzip header
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
# Version, independence and the reserved bits among the flags of an lz4 frame.
_LZ4_FLAGS_AT, _LZ4_LOOKED_AT, _LZ4_INDEPENDENT = 4, 0b1110_0011, 0b0110_0000
_ZSTD_CHECKSUM_BYTES = 4
_per_thread = threading.local()


def compress(codec: int, data: Data) -> bytes:
    """`data` compressed in the way every Kafka client can read."""
    pack = _COMPRESS.get(codec)
    if pack is None:
        raise UnsupportedCompression(f"there is no compression codec {codec}")
    return pack(data)


def decompress(codec: int, data: Data, max_bytes: int) -> bytes:
    """The plain bytes. GrowsTooLarge if they are more than `max_bytes`, CorruptBatch if `data` is damaged."""
    unpack = _DECOMPRESS.get(codec)
    if unpack is None:
        raise UnsupportedCompression(f"there is no compression codec {codec}")
    return unpack(data, max_bytes)


def _too_much(codec: int, max_bytes: int) -> GrowsTooLarge:
    return GrowsTooLarge(f"{CODEC_NAMES[codec]} data grows beyond the limit of {max_bytes} bytes")


def _damaged(codec: int, why: object) -> CorruptBatch:
    return CorruptBatch(f"{CODEC_NAMES[codec]} data is damaged: {why}")


def _copy(data: Data, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_much(NO_CODEC, max_bytes)
    return bytes(data)


def _gzip(data: Data) -> bytes:
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return packer.compress(data) + packer.flush()


def _gunzip(data: Data, max_bytes: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW_BITS)
    try:
        plain = unpacker.decompress(data, max_bytes + 1)  # one more, to tell "full" from "too much"
    except zlib.error as error:
        raise _damaged(GZIP, error) from None
    if len(plain) > max_bytes:
        raise _too_much(GZIP, max_bytes)
    if not unpacker.eof or unpacker.unused_data:
        raise _damaged(GZIP, "bytes follow the stream" if unpacker.eof else "it ends early")
    return plain


def _snappy(data: Data) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(data: Data, max_bytes: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(view, max_bytes, max_bytes)
    pos, end, room = len(_XERIAL_HEADER), len(view), max_bytes
    if end < pos:
        raise _damaged(SNAPPY, "it ends early")
    parts = []
    while pos < end:
        if end - pos < _BLOCK_SIZE.size:
            raise _damaged(SNAPPY, "it ends early")
        (size,) = _BLOCK_SIZE.unpack_from(view, pos)
        pos += _BLOCK_SIZE.size
        if not 0 < size <= end - pos:
            raise _damaged(SNAPPY, f"a block of {size} bytes where {end - pos} are left")
        plain = _unsnappy_block(view[pos : pos + size], room, max_bytes)
        parts.append(plain)
        room -= len(plain)
        pos += size
    return b"".join(parts)


def _unsnappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    """One raw block; the length it announces is checked first, and the library never writes beyond it."""
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_much(SNAPPY, max_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _damaged(SNAPPY, error) from None


def _lz4(data: Data) -> bytes:
    # Java reads independent blocks only, and looks at neither the content size nor its checksum.
    packed: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return packed


def _unlz4(data: Data, max_bytes: int) -> bytes:
    # Java's consumers read version 1 with independent blocks, and look at the reserved bits.
    if len(data) > _LZ4_FLAGS_AT and data[_LZ4_FLAGS_AT] & _LZ4_LOOKED_AT != _LZ4_INDEPENDENT:
        raise _damaged(LZ4, "its blocks depend on each other, or its version is not 1")
    unpacker = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = unpacker.decompress(data, max_length=max_bytes + 1)
    except (RuntimeError, ValueError) as error:
        raise _damaged(LZ4, error) from None
    if len(plain) > max_bytes:
        raise _too_much(LZ4, max_bytes)
    if not unpacker.eof or unpacker.unused_data:
        raise _damaged(LZ4, "bytes follow the frame" if unpacker.eof else "it ends early")
    return plain


def _zstd(data: Data) -> bytes:
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(data)


def _unzstd(data: Data, max_bytes: int) -> bytes:
    # The library trusts a content size in the frame and gives it all the memory it asks for: look first.
    # Without one (Java never writes it) the buffer is `max_bytes`, which the system gives as it is filled.
    size = 0
    try:
        size = zstandard.frame_content_size(data)
        if size > max_bytes:
            raise _too_much(ZSTD, max_bytes)
        plain = _zstd_decompressor().decompress(data, max_bytes, allow_extra_data=False)
        if size < 0 and _zstd_end(memoryview(data)) != len(data):
            raise _damaged(ZSTD, "bytes follow the frame")  # which the library tells of other frames only
        return plain
    except zstandard.ZstdError as error:
        if size >= 0 or _zstd_end(memoryview(data)) != len(data):
            raise _damaged(ZSTD, error) from None
        raise _too_much(ZSTD, max_bytes) from None  # or its blocks are damaged: the library does not tell


def _zstd_end(data: memoryview) -> int:
    """Where the first frame ends; behind the data if it is cut.

    frame header | blocks | checksum. A block: 3 bytes, little-endian (last 1 bit, type 2, size 21); bytes
    """
    at, last = zstandard.frame_header_size(data), False
    while not last and at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        last = bool(head & 1)
        repeats_one_byte = head >> 1 & 3 == 1
        at += 3 + (1 if repeats_one_byte else head >> 3)
    return at + (_ZSTD_CHECKSUM_BYTES if zstandard.get_frame_parameters(data).has_checksum else 0)


def _zstd_decompressor() -> zstandard.ZstdDecompressor:
    """One per thread: it may not be shared, and making one takes thirty times as long as a small batch."""
    made: zstandard.ZstdDecompressor | None = getattr(_per_thread, "zstd", None)
    if made is None:
        made = _per_thread.zstd = zstandard.ZstdDecompressor()
    return made


_COMPRESS: dict[int, Callable[[Data], bytes]] = {
    NO_CODEC: bytes,
    GZIP: _gzip,
    SNAPPY: _snappy,
    LZ4: _lz4,
    ZSTD: _zstd,
}
_DECOMPRESS: dict[int, Callable[[Data, int], bytes]] = {
    NO_CODEC: _copy,
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
