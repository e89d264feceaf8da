"""Batches of a lane, opened: their records' bytes and where each part of each record lies."""

from __future__ import annotations

from typing import Protocol

from mainstem.broker.partition import Partition
from mainstem.kernel.log.log import Log
from mainstem.model import record_loop
from mainstem.model.ports import Buffer
from mainstem.model.record import Headers
from mainstem.model.record_loop import Span
from mainstem.model.records import open_records

# Read ahead so much of a lane at once.
READ_BYTES = 1 << 20
# A record's header `expires`, as its name is coded in front of its value.
_EXPIRES = b"\x0eexpires"
_DEAD = b"\x08dead"


class OpenBatch:
    """Offsets `base_offset` up to below `stop`, without gaps."""

    __slots__ = ("base_ms", "base_offset", "data", "expiring", "spans", "stop")

    def __init__(self, base_offset: int, base_ms: int, data: bytes, spans: list[Span]) -> None:
        self.base_offset = base_offset
        self.base_ms = base_ms
        self.data = data
        self.spans = spans
        self.stop = base_offset + len(spans)
        # Some of them may have a time to live of their own, or came here as dead letters.
        self.expiring = _EXPIRES in data or _DEAD in data

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
    return OpenBatch(header.base_offset, header.base_timestamp_ms, data, spans)


class HasLog(Protocol):
    log: Log


class LaneReader:
    """Opens batches of one partition in order; keeps those that are being read."""

    __slots__ = ("_kept", "_partition", "_source")

    def __init__(self, source: HasLog, partition: Partition) -> None:
        self._source = source  # its log is there once the broker serves
        self._partition = partition
        self._kept: list[OpenBatch] = []

    def at(self, offset: int) -> OpenBatch:
        """The batch that holds an offset. Raises WouldBlock when the disk is needed: then `load`."""
        found = self.kept(offset)
        if found is None:
            partition = self._partition
            batches = self._source.log.read(partition.id, offset, READ_BYTES, partition.high_watermark)
            found = self._use(batches, offset)
        return found

    def kept(self, offset: int) -> OpenBatch | None:
        for opened in self._kept:
            if opened.base_offset <= offset < opened.stop:
                return opened
        return None

    def load(self, offset: int, upto: int) -> list[OpenBatch]:
        """May wait for the disk, and run in any thread; hand the result to `use`."""
        batches = self._source.log.read(self._partition.id, offset, READ_BYTES, upto, wait=True)
        return [open_batch(batch) for batch in batches]

    def use(self, opened: list[OpenBatch]) -> None:
        self._kept = opened

    def _use(self, batches: list[Buffer], offset: int) -> OpenBatch:
        self._kept = [open_batch(batch) for batch in batches]
        found = self.kept(offset)
        if found is None:
            raise AssertionError(f"offset {offset} of {self._partition} is not where the index says")
        return found

    def forget(self) -> None:
        self._kept = []
