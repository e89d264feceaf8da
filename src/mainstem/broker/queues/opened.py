"""Batches of a lane, opened: their records' bytes and where each part of each record lies."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Protocol

from mainstem.broker.partition import Partition
from mainstem.broker.queues.shelf import LEAST_READ_BYTES, MOST_READ_BYTES, Shelf
from mainstem.kernel.log.log import Log
from mainstem.model import record_loop
from mainstem.model.batch import BATCH_OVERHEAD
from mainstem.model.ports import Buffer
from mainstem.model.record import Headers
from mainstem.model.record_loop import Span
from mainstem.model.records import open_records

# Batches of a lane that are remembered from their writing until they are taken, and how large one may be.
MOST_WRITTEN = 4
MOST_WRITTEN_BYTES = 64 << 10
# What a span takes in memory: a tuple, and those of its numbers that are not small.
SPAN_BYTES = 280
# Less than this, just written, is not worth a word about: a queue takes more by itself.
LITTLE_BYTES = 4 << 10
# Small messages, opened, take so many times what they take on disk.
SWOLLEN = 8
# A record's header `expires`, as its name is coded in front of its value.
_EXPIRES = b"\x0eexpires"
_DEAD = b"\x08dead"


class OpenBatch:
    """Offsets `base_offset` up to below `stop`, without gaps."""

    __slots__ = ("base_ms", "base_offset", "data", "expiring", "kept_bytes", "spans", "stop")

    def __init__(
        self, base_offset: int, base_ms: int, data: bytes, spans: list[Span], expiring: bool
    ) -> None:
        self.base_offset = base_offset
        self.base_ms = base_ms
        self.data = data
        self.spans = spans
        self.stop = base_offset + len(spans)
        self.expiring = expiring  # some may have a time to live of their own, or came here as dead letters
        self.kept_bytes = len(data) + SPAN_BYTES * len(spans)  # that whoever keeps it takes

    def at_place(self, base_offset: int, sharing: int) -> OpenBatch:
        """The same records in another lane; so many lanes share them."""
        opened = OpenBatch(base_offset, self.base_ms, self.data, self.spans, self.expiring)
        opened.kept_bytes = self.kept_bytes // sharing
        return opened

    def part(self, first: int, most_bytes: int) -> OpenBatch:
        """Message `first` and those behind it that do not take more memory, as a batch of their own."""
        spans, at = self.spans, first - self.base_offset
        start, delta, stop = spans[at][0], spans[at][3], at + 1
        while stop < len(spans) and spans[stop][1] - start + SPAN_BYTES * (stop + 1 - at) <= most_bytes:
            stop += 1
        moved: list[Span] = [
            (a - start, b - start, ms, n - delta, key - start, key_size, value - start, size, headers - start)
            for a, b, ms, n, key, key_size, value, size, headers in spans[at:stop]
        ]
        return OpenBatch(first, self.base_ms, self.data[start : spans[stop - 1][1]], moved, self.expiring)

    def headers(self, index: int) -> dict[str, bytes | None]:
        """Of one record; of two with one name the last."""
        span = self.spans[index]
        return dict(self.header_list(span))

    def header_list(self, span: Span) -> Headers:
        return record_loop.decode_headers(self.data, span[8], span[1])

    def bytes_of(self, first: int, stop: int) -> int:
        """Of records first..stop, by their number in the batch, whole as they are."""
        return self.spans[stop - 1][1] - self.spans[first][0]

    def came_ms(self, index: int, headers: dict[str, bytes | None]) -> int:
        """When it came to the queue it is in: for a dead letter that is later than it was written."""
        since = headers.get("since")
        return int.from_bytes(since, "big") if since else self.base_ms + self.spans[index][2]


def open_batch(batch: Buffer) -> OpenBatch:
    header, data = open_records(batch)
    spans = record_loop.scan(data, header.record_count, header.last_offset_delta)
    return OpenBatch(header.base_offset, header.base_timestamp_ms, data, spans, _is_expiring(data))


def open_written(batch: bytearray, base_offset: int, count: int, at_ms: int) -> OpenBatch:
    """One that was just made, of plain records of one time."""
    data = bytes(memoryview(batch)[BATCH_OVERHEAD:])
    return OpenBatch(base_offset, at_ms, data, record_loop.scan(data, count, count - 1), _is_expiring(data))


def _is_expiring(data: bytes) -> bool:
    return _EXPIRES in data or _DEAD in data


class Source(Protocol):
    """Where a lane's batches come from. The log is there once the broker serves."""

    log: Log
    shelf: Shelf


def _base_offset(opened: OpenBatch) -> int:
    return opened.base_offset


class LaneReader:
    """Opens batches of one partition in order; keeps those that are being read.

    Where somebody waits for messages, those that were just written need not be read at all. Nothing depends
    on what is kept: all lanes share a shelf, and any of them may have to forget at any time. Who had to
    forget reads less ahead from then on, and who came to the end of what it read reads more: many that are
    taken from in turn, a little at a time, come to share the shelf, and who takes in one go is not held up.
    """

    __slots__ = (
        "_ahead_bytes",
        "_kept",
        "_kept_bytes",
        "_partition",
        "_shelved",
        "_source",
        "_written",
        "_written_bytes",
    )

    def __init__(self, source: Source, partition: Partition) -> None:
        self._source = source
        self._partition = partition
        self._ahead_bytes = 0  # to read at once; 0: it was not decided yet
        self._kept: list[OpenBatch] = []
        self._kept_bytes = 0
        self._written: deque[OpenBatch] | None = None
        self._written_bytes = 0
        self._shelved = False  # the shelf was told how much is kept

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes + self._written_bytes

    def note_written(self, opened: OpenBatch) -> None:
        """On its way to the disk; whoever asks for it asks when it is there."""
        written = self._written
        if written is None:
            written = self._written = deque()
        elif len(written) == MOST_WRITTEN:
            self._written_bytes -= written.popleft().kept_bytes
        written.append(opened)
        self._written_bytes += opened.kept_bytes
        if self._shelved or self._written_bytes > LITTLE_BYTES:
            self._tell_shelf()

    def _tell_shelf(self) -> None:
        self._shelved = True
        self._source.shelf.put(self, self._kept_bytes + self._written_bytes)

    def at(self, offset: int) -> OpenBatch:
        """The batch that holds an offset. Raises WouldBlock when the disk is needed: then `load`."""
        found = self.kept(offset)
        if found is None:
            self.use(self._read(offset, self._partition.high_watermark, wait=False), offset)
            found = self.kept(offset)
            if found is None:
                raise AssertionError(f"offset {offset} of {self._partition} is not where the index says")
        return found

    def kept(self, offset: int) -> OpenBatch | None:
        # They lie in order: of a queue that is fed slowly there may be thousands.
        at = bisect_right(self._kept, offset, key=_base_offset) - 1
        if at >= 0 and offset < self._kept[at].stop:
            return self._kept[at]
        written = self._written
        while written:
            opened = written[0]
            if offset < opened.base_offset:
                return None
            if offset < opened.stop:
                return opened
            self._written_bytes -= written.popleft().kept_bytes
        return None

    def load(self, offset: int, upto: int) -> list[OpenBatch]:
        """May wait for the disk, and run in any thread; hand the result to `use`."""
        return self._read(offset, upto, wait=True)

    def _read(self, offset: int, upto: int, *, wait: bool) -> list[OpenBatch]:
        source = self._source
        most_bytes = self._ahead_bytes or source.shelf.read_bytes
        batches = source.log.read(self._partition.id, offset, most_bytes, upto, wait=wait)
        return [open_batch(batch) for batch in batches]

    def use(self, opened: list[OpenBatch], offset: int = 0) -> None:
        """What was read because this offset was wanted. If it is too much, what lies there is kept."""
        ahead_bytes = self._ahead_bytes or self._source.shelf.read_bytes
        if self._kept and offset >= self._kept[-1].stop:
            ahead_bytes = min(2 * ahead_bytes, MOST_READ_BYTES)
        self._ahead_bytes = ahead_bytes
        self._kept, self._kept_bytes = _within(opened, offset, SWOLLEN * ahead_bytes)
        self._tell_shelf()

    def forget_below(self, offset: int) -> None:
        """All below was taken, and that is all there is: what comes back is read again."""
        written = self._written
        while written and written[0].stop <= offset:
            self._written_bytes -= written.popleft().kept_bytes
        if self._shelved:
            self._kept, self._kept_bytes = [], 0
            if self._written_bytes > LITTLE_BYTES:
                self._tell_shelf()
            else:
                self._shelved = False
                self._source.shelf.remove(self)

    def make_room(self) -> None:
        """For others, who need it more."""
        self._ahead_bytes = max(self._ahead_bytes // 2, LEAST_READ_BYTES)
        self.forget()

    def forget(self) -> None:
        self._kept, self._kept_bytes = [], 0
        self._written, self._written_bytes = None, 0
        if self._shelved:
            self._shelved = False
            self._source.shelf.remove(self)


def _within(opened: list[OpenBatch], offset: int, most_bytes: int) -> tuple[list[OpenBatch], int]:
    """Those from an offset on that fit, and how much they take. The message at the offset is there anyway."""
    size = sum(one.kept_bytes for one in opened)
    if size <= most_bytes:
        return opened, size
    kept: list[OpenBatch] = []
    size = 0
    for one in opened:
        if one.stop <= offset:
            continue
        if size + one.kept_bytes > most_bytes:
            if kept:
                break
            one = one.part(max(offset, one.base_offset), most_bytes)
        kept.append(one)
        size += one.kept_bytes
    return kept, size
