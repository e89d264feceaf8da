"""Produce and Fetch by hand: the four messages that decide the broker's speed.

They equal what `codec` makes of `produce.py` and `fetch.py` (a test compares them) and differ in what they
hand out: plain tuples, record batches as views into the request, and a Fetch response as a list of chunks in
which the records are the caller's own buffers. A malformed request is read again by the general codec, which
knows how to name the field.

Two encodings: classic (int16/int32 lengths) and flexible (varint of length + 1, tags after each struct).

    produce  transactional_id acks:int16 timeout_ms:int32 [topic [partition:int32 records]]
    fetch    replica_id:int32 (to v14) max_wait_ms min_bytes max_bytes isolation:int8 session_id session_epoch
             [topic [partition ...]] [forgotten topic [partition]] rack_id

This file is plain Python that Cython also takes as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from mainstem.model.errors import InvalidRequest
from mainstem.model.slices import Chunk
from mainstem.wire.kafka.hot_parts import (
    after_tags,
    classic_count,
    classic_string,
    compact_count,
    compact_name,
    compact_string,
    int32s,
    put_count,
    put_topic,
    topic_id,
)
from mainstem.wire.kafka.primitives import (
    MORE_THAN_MOST,
    MOST_ELEMENTS,
    Buffer,
    Malformed,
    bad_length,
    longer_varint,
    put_varint,
    read_varint,
    too_long,
    too_many,
)

Topic = str | bytes  # a name, or from version 13 on a 16-byte id
ProducePartition = tuple[int, memoryview | None]  # partition, records
ProduceTopic = tuple[Topic, list[ProducePartition]]
ProduceQuery = tuple[str | None, int, int, list[ProduceTopic]]  # transactional id, acks, timeout_ms, topics
# Why a batch was refused: a message, if need be with the positions in it of the records that are at fault.
Refusal = str | tuple[str, Sequence[int]]
# partition, error code, base offset, log append time (-1: create time), log start offset, why it was refused
ProduceResult = tuple[int, int, int, int, int, Refusal | None]
# partition, current leader epoch, fetch offset, log start offset (of a follower), partition max bytes
FetchPartition = tuple[int, int, int, int, int]
FetchTopic = tuple[Topic, list[FetchPartition]]
# partition, error code, high watermark, last stable offset, log start offset,
# aborted transactions as (producer id, first offset), records in pieces
FetchResult = tuple[int, int, int, int, int, list[tuple[int, int]] | None, Sequence[Chunk]]

_PRODUCE_FLEXIBLE = 9
_FETCH_FLEXIBLE = 12
_TOPIC_IDS = 13  # of both APIs

_INT16 = struct.Struct(">h").unpack_from
_INT32 = struct.Struct(">i").unpack_from
_INT32_TWICE = struct.Struct(">ii").unpack_from
_ACKS_TIMEOUT = struct.Struct(">hi").unpack_from
_PRODUCE_HEAD = struct.Struct(">hhiih").unpack_from  # null transactional id .. length of the first topic
_PRODUCE_HEAD_FLEXIBLE = struct.Struct(">BhiB").unpack_from  # null transactional id .. topic count


def _failure(name: str, version: int, buf: Buffer, pos: int) -> InvalidRequest:
    """The error for bytes that a hot parser refused, with the field as the general codec names it."""
    from mainstem.wire.kafka import codec, fetch, produce  # not needed as long as clients behave

    cls = produce.ProduceRequest if name == "ProduceRequest" else fetch.FetchRequest
    try:
        codec.decoder(cls, version, MOST_ELEMENTS)(buf, pos)
    except InvalidRequest as named:
        return named
    return InvalidRequest(f"{name} v{version}: malformed")


# --- produce -------------------------------------------------------------------------------------------


def parse_produce(buf: memoryview, pos: int, version: int) -> ProduceQuery:
    """The body of a Produce request, versions 3 to 13. Records stay views into `buf`."""
    try:
        if version < _PRODUCE_FLEXIBLE:
            return _produce_classic(buf, pos)
        return _produce_flexible(buf, pos, version)
    except (struct.error, IndexError, UnicodeDecodeError, Malformed):
        raise _failure("ProduceRequest", version, buf, pos) from None


# The smallest batch there is has more bytes than this. A request that names more topics and partitions than
# could bring one each is made to fill memory: an entry of six bytes becomes a hundred and more.
_LEAST_BATCH_BYTES = 64
_ENTRIES_AT_LEAST = 1000


def _entries_allowed(size: int) -> int:
    allowed = _ENTRIES_AT_LEAST + size // _LEAST_BATCH_BYTES
    return allowed if allowed < MOST_ELEMENTS else MOST_ELEMENTS  # quicker than min()


def _too_many_entries() -> None:
    raise InvalidRequest("ProduceRequest: more topics and partitions than its bytes could hold batches")


def _produce_classic(buf: memoryview, pos: int) -> ProduceQuery:
    size = len(buf)
    left = _entries_allowed(size)
    transactional_id: str | None = None
    id_length = topic_count = 0
    if size - pos >= 14:
        id_length, acks, timeout_ms, topic_count, length = _PRODUCE_HEAD(buf, pos)
    if id_length == -1 and topic_count > 0:
        pos += 14
    else:  # a transactional id, or no topic at all: read it again, field by field
        transactional_id, pos = classic_string(buf, pos, size, True)
        acks, timeout_ms = _ACKS_TIMEOUT(buf, pos)
        (topic_count,) = _INT32(buf, pos + 6)
        pos += 10
        if topic_count < 0:
            bad_length(topic_count)
        if topic_count == 0:
            return transactional_id, acks, timeout_ms, []
        (length,) = _INT16(buf, pos)
        pos += 2
    if topic_count > (size - pos) // 6 + 1:
        too_many(topic_count)
    topics: list[ProduceTopic] = []
    while True:
        end = pos + length
        if length < 0 or end > size:
            too_long(length)
        topic = str(buf[pos:end], "utf-8")
        pos, partitions = _produce_partitions(buf, end, size, left)
        topics.append((topic, partitions))
        left -= len(partitions) + 1
        topic_count -= 1
        if topic_count == 0:
            return transactional_id, acks, timeout_ms, topics
        (length,) = _INT16(buf, pos)
        pos += 2


def _produce_partitions(
    buf: memoryview, pos: int, size: int, left: int
) -> tuple[int, list[ProducePartition]]:
    (count,) = _INT32(buf, pos)
    pos += 4
    if count < 0:
        bad_length(count)
    if count > (size - pos) // 8:
        too_many(count)
    if count > left:
        _too_many_entries()
    partitions: list[ProducePartition] = []
    while count:
        partition, length = _INT32_TWICE(buf, pos)
        pos += 8
        if length < 0:
            if length != -1:
                bad_length(length)
            partitions.append((partition, None))
        else:
            end = pos + length
            if end > size:
                too_long(length)
            partitions.append((partition, buf[pos:end]))
            pos = end
        count -= 1
    return pos, partitions


def _produce_flexible(buf: memoryview, pos: int, version: int) -> ProduceQuery:
    size = len(buf)
    transactional_id: str | None = None
    first, acks, timeout_ms, topic_count = _PRODUCE_HEAD_FLEXIBLE(buf, pos)
    if first == 0 and topic_count < 0x80:
        pos += 8
    else:
        transactional_id, pos = compact_string(buf, pos, size, True)
        acks, timeout_ms = _ACKS_TIMEOUT(buf, pos)
        topic_count, pos = read_varint(buf, pos + 6)
    topic_count -= 1
    if topic_count < 0:
        bad_length(topic_count)
    if topic_count > (size - pos) // (18 if version >= _TOPIC_IDS else 3):
        too_many(topic_count)
    left = _entries_allowed(size)
    topics: list[ProduceTopic] = []
    while topic_count:
        topic: Topic | None
        if version >= _TOPIC_IDS:
            topic = bytes(buf[pos : pos + 16])
            pos += 16
        else:
            topic, pos = compact_string(buf, pos, size, False)
            assert topic is not None
        partitions: list[ProducePartition] = []
        count = buf[pos]
        pos += 1
        if count > 0x7F:
            count, pos = longer_varint(buf, pos, count)
        if count == 0:
            bad_length(-1)
        if count - 1 > (size - pos) // 6:
            too_many(count - 1)
        if count - 1 > left:
            _too_many_entries()
        left -= count
        while count > 1:
            (partition,) = _INT32(buf, pos)
            length = buf[pos + 4]
            pos += 5
            if length > 0x7F:
                length, pos = longer_varint(buf, pos, length)
            if length == 0:
                partitions.append((partition, None))
            else:
                end = pos + length - 1
                if end > size:
                    too_long(length - 1)
                partitions.append((partition, buf[pos:end]))
                pos = end
            if buf[pos]:
                pos = after_tags(buf, pos, size)
            else:
                pos += 1
            count -= 1
        pos = after_tags(buf, pos, size)
        topics.append((topic, partitions))
        topic_count -= 1
    after_tags(buf, pos, size)
    return transactional_id, acks, timeout_ms, topics


_RESPONSE_HEAD = struct.Struct(">iii").pack  # size, correlation id, topic count
_RESPONSE_HEAD_FLEXIBLE = struct.Struct(">iiB").pack  # size, correlation id, header tags
_INT16_PACK = struct.Struct(">h").pack
_INT32_PACK = struct.Struct(">i").pack
_SIZE_INTO = struct.Struct(">i").pack_into
_PRODUCED_3 = struct.Struct(">ihqq").pack
_PRODUCED_5 = struct.Struct(">ihqqq").pack
_PRODUCED_8 = struct.Struct(">ihqqqih").pack  # .. no record errors, no message
_PRODUCED_9 = struct.Struct(">ihqqqBBB").pack  # .. no record errors, no message, no tags
_THROTTLE_TAGS = struct.Struct(">iB").pack


def encode_produce_response(
    correlation_id: int,
    version: int,
    results: Sequence[tuple[Topic, Sequence[ProduceResult]]],
    throttle_ms: int,
) -> bytes:
    """A whole Produce response frame, versions 3 to 13, shaped like the request."""
    flexible = version >= _PRODUCE_FLEXIBLE
    if flexible:
        out = bytearray(_RESPONSE_HEAD_FLEXIBLE(0, correlation_id, 0))
        put_varint(out, len(results) + 1)
    else:
        out = bytearray(_RESPONSE_HEAD(0, correlation_id, len(results)))
    for topic, partitions in results:
        put_topic(out, topic, flexible)
        if flexible:
            put_varint(out, len(partitions) + 1)
        else:
            out += _INT32_PACK(len(partitions))
        for partition, error, base_offset, append_time, start_offset, why in partitions:
            if version < 5:
                out += _PRODUCED_3(partition, error, base_offset, append_time)
            elif version < 8:
                out += _PRODUCED_5(partition, error, base_offset, append_time, start_offset)
            elif why is not None:
                out += _PRODUCED_5(partition, error, base_offset, append_time, start_offset)
                _put_why(out, why, flexible)
            elif not flexible:
                out += _PRODUCED_8(partition, error, base_offset, append_time, start_offset, 0, -1)
            else:
                out += _PRODUCED_9(partition, error, base_offset, append_time, start_offset, 1, 0, 0)
        if flexible:
            out.append(0)
    out += _THROTTLE_TAGS(throttle_ms, 0) if flexible else _INT32_PACK(throttle_ms)
    _SIZE_INTO(out, 0, len(out) - 4)
    return bytes(out)


def _put_why(out: bytearray, why: Refusal, flexible: bool) -> None:
    """The records that are at fault, each without words of its own, and the message."""
    message, positions = why if isinstance(why, tuple) else (why, ())
    text = message.encode()
    if flexible:
        put_varint(out, len(positions) + 1)
        out += b"".join(_INT32_PACK(position) + b"\0\0" for position in positions)  # no message, no tags
        put_varint(out, len(text) + 1)
        out += text + b"\0"
    else:
        out += _INT32_PACK(len(positions))
        out += b"".join(_INT32_PACK(position) + b"\xff\xff" for position in positions)
        out += _INT16_PACK(len(text)) + text


# --- fetch ---------------------------------------------------------------------------------------------


class FetchQuery:
    """What a Fetch request asks for. Topics are names, or ids from version 13 on."""

    __slots__ = (
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "offset_at",
        "rack_id",
        "session_epoch",
        "session_id",
        "topics",
    )

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int  # 0 read uncommitted, 1 read committed
    session_id: int
    session_epoch: int  # -1: no session
    topics: list[FetchTopic]
    forgotten: list[tuple[Topic, list[int]]]
    rack_id: str
    offset_at: int  # where in the frame the offset stands that the last partition is wanted from


_FETCH_4 = struct.Struct(">iiiib").unpack_from  # replica id .. isolation level
_FETCH_7 = struct.Struct(">iiiibii").unpack_from  # .. session id and epoch
_FETCH_15 = struct.Struct(">iiibii").unpack_from  # without the replica id
_WANTED_4 = struct.Struct(">iqi").unpack_from
_WANTED_5 = struct.Struct(">iqqi").unpack_from
_WANTED_9 = struct.Struct(">iiqqi").unpack_from
_WANTED_12 = struct.Struct(">iiqiqi").unpack_from  # .. with the last fetched epoch, which has no use here


def parse_fetch(buf: memoryview, pos: int, version: int) -> FetchQuery:
    """The body of a Fetch request, versions 4 to 18."""
    try:
        if version < _FETCH_FLEXIBLE:
            return _fetch_classic(buf, pos, version)
        return _fetch_flexible(buf, pos, version)
    except (struct.error, IndexError, UnicodeDecodeError, Malformed):
        raise _failure("FetchRequest", version, buf, pos) from None


def _too_much_asked() -> None:
    """Not Malformed: so many are not read a second time."""
    raise InvalidRequest(f"FetchRequest: {MORE_THAN_MOST}")


def _fetch_classic(buf: memoryview, pos: int, version: int) -> FetchQuery:
    size = len(buf)
    q = FetchQuery()
    if version < 7:
        _, q.max_wait_ms, q.min_bytes, q.max_bytes, q.isolation_level = _FETCH_4(buf, pos)
        q.session_id, q.session_epoch = 0, -1
        pos += 17
    else:
        head = _FETCH_7(buf, pos)
        _, q.max_wait_ms, q.min_bytes, q.max_bytes, q.isolation_level, q.session_id, q.session_epoch = head
        pos += 25
    q.topics = []
    q.forgotten = []
    q.rack_id = ""
    wanted_size = 16 if version < 5 else 24 if version < 9 else 28
    q.offset_at = 0
    count, pos = classic_count(buf, pos, size, 6)
    left = MOST_ELEMENTS - count
    for _ in range(count):
        topic, pos = classic_string(buf, pos, size, False)
        partition_count, pos = classic_count(buf, pos, size, wanted_size)
        left -= partition_count
        if left < 0:
            _too_much_asked()
        partitions: list[FetchPartition] = []
        if partition_count:
            q.offset_at = pos + (partition_count - 1) * wanted_size + (8 if version >= 9 else 4)
        for _ in range(partition_count):
            if version >= 9:
                partitions.append(_WANTED_9(buf, pos))
            elif version >= 5:
                partition, offset, start_offset, max_bytes = _WANTED_5(buf, pos)
                partitions.append((partition, -1, offset, start_offset, max_bytes))
            else:
                partition, offset, max_bytes = _WANTED_4(buf, pos)
                partitions.append((partition, -1, offset, -1, max_bytes))
            pos += wanted_size
        q.topics.append((topic, partitions))  # type: ignore[arg-type]  # not null, as asked
    if version >= 7:
        count, pos = classic_count(buf, pos, size, 6)
        left -= count
        for _ in range(count):
            topic, pos = classic_string(buf, pos, size, False)
            partition_count, pos = classic_count(buf, pos, size, 4)
            left -= partition_count
            if left < 0:
                _too_much_asked()
            q.forgotten.append((topic, int32s(buf, pos, partition_count)))  # type: ignore[arg-type]
            pos += 4 * partition_count
    if version >= 11:
        q.rack_id, pos = classic_string(buf, pos, size, False)  # type: ignore[assignment]
    return q


def _fetch_flexible(buf: memoryview, pos: int, version: int) -> FetchQuery:
    size = len(buf)
    q = FetchQuery()
    if version < 15:
        pos += 4  # replica id
    q.max_wait_ms, q.min_bytes, q.max_bytes, q.isolation_level, q.session_id, q.session_epoch = _FETCH_15(
        buf, pos
    )
    pos += 21
    q.topics = []
    q.forgotten = []
    q.offset_at = 0
    ids = version >= _TOPIC_IDS
    smallest_topic = 18 if ids else 3
    count, pos = compact_count(buf, pos, size, smallest_topic)
    left = MOST_ELEMENTS - count
    for _ in range(count):
        topic, pos = topic_id(buf, pos) if ids else compact_name(buf, pos, size)
        partition_count, pos = compact_count(buf, pos, size, 33)
        left -= partition_count
        if left < 0:
            _too_much_asked()
        partitions: list[FetchPartition] = []
        for _ in range(partition_count):
            partition, epoch, offset, _, start_offset, max_bytes = _WANTED_12(buf, pos)
            partitions.append((partition, epoch, offset, start_offset, max_bytes))
            q.offset_at = pos + 8
            pos = after_tags(buf, pos + 32, size)
        pos = after_tags(buf, pos, size)
        q.topics.append((topic, partitions))
    count, pos = compact_count(buf, pos, size, smallest_topic)
    left -= count
    for _ in range(count):
        topic, pos = topic_id(buf, pos) if ids else compact_name(buf, pos, size)
        partition_count, pos = compact_count(buf, pos, size, 4)
        left -= partition_count
        if left < 0:
            _too_much_asked()
        q.forgotten.append((topic, int32s(buf, pos, partition_count)))
        pos = after_tags(buf, pos + 4 * partition_count, size)
    q.rack_id, pos = compact_name(buf, pos, size)
    after_tags(buf, pos, size)
    return q


_FETCHED_HEAD = struct.Struct(">iii").pack  # size, correlation id, throttle
_FETCHED_HEAD_FLEXIBLE = struct.Struct(">iiBi").pack  # the same with header tags
_ERROR_SESSION = struct.Struct(">hi").pack
_FETCHED_4 = struct.Struct(">ihqq").pack
_FETCHED_5 = struct.Struct(">ihqqq").pack
_ABORTED = struct.Struct(">qq").pack
_ABORTED_TAGS = struct.Struct(">qqB").pack
_NO_PREFERRED_REPLICA = b"\xff\xff\xff\xff"


def encode_fetch_response(
    correlation_id: int,
    version: int,
    throttle_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Topic, Sequence[FetchResult]]],
) -> list[Chunk]:
    """A whole Fetch response frame, versions 4 to 18, as chunks to be written in order.

    The records of a partition are passed on as the chunks they came in.
    """
    flexible = version >= _FETCH_FLEXIBLE
    if flexible:
        out = bytearray(_FETCHED_HEAD_FLEXIBLE(0, correlation_id, 0, throttle_ms))
    else:
        out = bytearray(_FETCHED_HEAD(0, correlation_id, throttle_ms))
    if version >= 7:
        out += _ERROR_SESSION(error_code, session_id)
    put_count(out, len(topics), flexible)
    first = out
    chunks: list[Chunk] = []
    total = -4  # the size does not count itself
    for topic, partitions in topics:
        put_topic(out, topic, flexible)
        put_count(out, len(partitions), flexible)
        for result in partitions:
            _put_fetched(out, version, flexible, result)
            length = 0
            for piece in result[6]:
                length += len(piece)
            if flexible:
                put_varint(out, length + 1)
            else:
                out += _INT32_PACK(length)
            if length:
                chunks.append(out)
                chunks.extend(result[6])
                total += len(out) + length
                out = bytearray()
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        chunks.append(out)
        total += len(out)
    _SIZE_INTO(first, 0, total)
    return chunks


def _put_fetched(out: bytearray, version: int, flexible: bool, result: FetchResult) -> None:
    """Everything of one partition that stands before its records."""
    partition, error, high_watermark, last_stable_offset, log_start_offset, aborted, _ = result
    if version >= 5:
        out += _FETCHED_5(partition, error, high_watermark, last_stable_offset, log_start_offset)
    else:
        out += _FETCHED_4(partition, error, high_watermark, last_stable_offset)
    if aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        put_count(out, len(aborted), flexible)
        for producer_id, first_offset in aborted:
            if flexible:
                out += _ABORTED_TAGS(producer_id, first_offset, 0)
            else:
                out += _ABORTED(producer_id, first_offset)
    if version >= 11:
        out += _NO_PREFERRED_REPLICA
