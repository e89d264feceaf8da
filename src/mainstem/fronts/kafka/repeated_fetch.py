"""Fetch requests that go on where the one before them ended.

A consumer of one partition sends the same bytes again and again: only the correlation id and the offset
differ. The first such request goes the long way (decode, look up, authorize, encode) and leaves a route
behind. Those that follow it are recognised by their bytes, and answered if large batches are there for them
that can be sent as they lie. Whatever else it is (nothing there yet, small batches, an error) takes the long
way.

    request   key version | correlation id | client id .. epoch | offset | log start .. rack
              `- head      differs           `- before           differs  `- after
    answer    size correlation id | before | high watermark, last stable offset, log start | between |
              length of the records | records | tags

Types for the compiler are in repeated_fetch.pxd.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from mainstem.broker.partition import Partition
from mainstem.broker.reading import Ahead, Reading
from mainstem.fronts.kafka.answer import Answer
from mainstem.fronts.kafka.session import Listener
from mainstem.fronts.kafka.versions import ZSTD, ZSTD_SINCE
from mainstem.model.big_endian import int32_at, int64_at
from mainstem.model.slices import Chunk
from mainstem.wire.kafka.hot import FetchQuery, Topic, encode_fetch_response
from mainstem.wire.kafka.primitives import put_varint

_READ_COMMITTED = 1
_unpack_head = Struct(">i").unpack_from  # API key and version as one number
_KEY_FROM = 8  # behind the correlation id; of an answer behind its size and that
_OFFSET_BYTES = 8
_LENGTH_BYTES = 4
_OFFSETS = Struct(">qqq").pack
_LENGTH = Struct(">i").pack
_SIZE_AND_ID = Struct(">ii").pack
_SIZE_INTO = Struct(">i").pack_into
_LOG_START_SINCE, _REPLICA_SINCE, _FLEXIBLE_SINCE = 5, 11, 12  # versions of what an answer holds
_NO_TAGS = b"\0\0\0"  # behind the records: of the partition, the topic, the answer
# Heads are kept in memory; one that is longer than any real client's is not.
MAX_REQUEST_BYTES = 1024

# Where looking ahead was in vain, it is done again after so many answers that went the long way.
VAIN_LOOK_REST = 64


def fixed_part(frame: memoryview, query: FetchQuery) -> bytes:
    """Of a request for one partition: all but what differs from one to the next."""
    at = query.offset_at
    return b"".join((frame[:4], frame[_KEY_FROM:at], frame[at + _OFFSET_BYTES :]))


class FetchRoute:
    """What one connection asks for, and the answer around its offsets and its records."""

    __slots__ = (
        "_after",
        "_before",
        "_committed",
        "_epoch",
        "_flexible",
        "_head",
        "_listener",
        "_max_bytes",
        "_min_bytes",
        "_most_bytes",
        "_offset_at",
        "_offsets_bytes",
        "_partition",
        "_reading",
        "_rests",
        "_size",
        "_stretch",
        "_told_before",
        "_told_between",
        "_version",
        "place",
    )

    def __init__(
        self, listener: Listener, frame: memoryview, query: FetchQuery, version: int, partition: Partition
    ) -> None:
        ((topic, ((_, epoch, _, _, max_bytes),)),) = query.topics
        self._listener = listener
        self._reading: Reading = listener.broker.reading
        self._partition = partition
        self._committed = query.isolation_level == _READ_COMMITTED
        self._epoch = epoch
        self._max_bytes = max_bytes
        self._min_bytes = query.min_bytes
        self._most_bytes = min(query.max_bytes, listener.max_response_bytes)
        self._size = len(frame)
        self._offset_at = query.offset_at
        (self._head,) = _unpack_head(frame)
        self._before = bytes(frame[_KEY_FROM : query.offset_at])
        self._after = bytes(frame[query.offset_at + _OFFSET_BYTES :])
        self.place = (topic, partition.index)
        self._version = version
        self._stretch: Ahead | None = None
        self._rests = 0  # so many long ways more before it is looked ahead again
        self._lay_out(version, topic)

    def encourage(self) -> None:
        """An answer that went the long way was made of batches that were sent as they lie."""
        if self._rests:
            self._rests -= 1

    def _lay_out(self, version: int, topic: Topic) -> None:
        """The answer, by the sample of one without records."""
        self._flexible = version >= _FLEXIBLE_SINCE
        aborted: list[tuple[int, int]] | None = [] if self._committed else None
        nothing = (self._partition.index, 0, 0, 0, 0, aborted, ())
        (sample,) = encode_fetch_response(0, version, 0, 0, 0, [(topic, [nothing])])
        assert isinstance(sample, bytearray)
        end = len(sample) - (1 + len(_NO_TAGS) if self._flexible else _LENGTH_BYTES)
        at = end - (1 if self._flexible else 4) - (4 if version >= _REPLICA_SINCE else 0)
        self._told_between = bytes(sample[at:end])
        self._offsets_bytes = (3 if version >= _LOG_START_SINCE else 2) * _OFFSET_BYTES
        at -= self._offsets_bytes
        self._told_before = bytes(sample[_KEY_FROM:at])

    def matches(self, data: bytearray, start: int, end: int) -> bool:
        """Whether the frame data[start:end] is like the one that left this route."""
        if end - start != self._size or int32_at(data, start) != self._head:
            return False
        at = start + self._offset_at
        memory = data  # plain memory where this is compiled, which is copied only once
        return (
            bytes(memory[at + _OFFSET_BYTES : end]) == self._after
            and bytes(memory[start + _KEY_FROM : at]) == self._before
        )

    def answer(self, data: bytearray, start: int, on_ready: Callable[[], None]) -> Answer | None:
        """To a frame that matches. None: take the long way."""
        partition = self._partition
        offset = int64_at(data, start + self._offset_at)
        high, stable = partition.high_watermark, partition.last_stable_offset()
        upto = stable if self._committed else high
        if offset < partition.log_start or offset >= upto:
            return None
        if self._epoch >= 0 and self._epoch != partition.leader_epoch:
            return None
        if self._version < ZSTD_SINCE and partition.topic.policy.codec == ZSTD:
            return None
        answers = self._listener.answers
        left = answers.allowed(self._most_bytes)
        room = max(min(self._max_bytes, left), 1)
        chunks = self._read(offset, room, upto)
        stretch = self._stretch
        if stretch is None or not chunks:
            return None
        size = sum(map(len, chunks))
        end = stretch.next_offset
        # Batches are whole: where the next one did not fit, the room that was left counts as used.
        used = max(size, room) if end < upto else size
        if used < min(self._min_bytes, left) or (self._committed and self._has_aborted(offset, end)):
            self._give_up()
            return None
        answer = Answer(on_ready)
        answer.copied = True
        answer.held = size
        answers.held += size
        answers.messages_bytes += size
        self._reading.sent(size)
        told = _OFFSETS(high, stable, partition.log_start)
        answer.chunks = self._around(int32_at(data, start + 4), told, chunks, size)
        return answer

    def _read(self, offset: int, room: int, upto: int) -> list[Chunk]:
        if self._stretch is not None:
            chunks = self._reading.go_on(self._stretch, offset, room, upto)
            if chunks:
                return chunks
        if self._rests:
            return []
        chunks = []
        self._stretch = self._reading.stretch(self._partition, offset, upto)
        if self._stretch is not None:
            chunks = self._reading.go_on(self._stretch, offset, room, upto)
        if not chunks:
            self._give_up()
        return chunks

    def _give_up(self) -> None:
        """For a while: it was looked ahead in vain."""
        self._stretch = None
        self._rests = VAIN_LOOK_REST

    def _has_aborted(self, offset: int, end: int) -> bool:
        """The answer would have to name transactions."""
        producers = self._partition.producers
        return producers is not None and bool(producers.aborted_between(offset, end))

    def _around(self, correlation_id: int, told: bytes, chunks: list[Chunk], size: int) -> list[Chunk]:
        head = bytearray(_SIZE_AND_ID(0, correlation_id))
        head += self._told_before
        head += told[: self._offsets_bytes]
        head += self._told_between
        if not self._flexible:
            head += _LENGTH(size)
            _SIZE_INTO(head, 0, len(head) + size - 4)
            return [head, *chunks]
        put_varint(head, size + 1)
        _SIZE_INTO(head, 0, len(head) + size + len(_NO_TAGS) - 4)
        return [head, *chunks, _NO_TAGS]
