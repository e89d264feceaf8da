"""Read from partitions: batches from an offset on, and offsets by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mainstem.broker.partition import Partition
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.stretch import Stretch, find_stretch
from mainstem.model.batch import read_header
from mainstem.model.errors import OffsetOutOfRange
from mainstem.model.ports import Buffer
from mainstem.model.records import first_at_or_after, max_timestamp_record
from mainstem.model.slices import Chunk

__all__ = ["Ahead", "Bounds", "Chunk", "PartitionRead", "Reading", "WouldBlock", "is_cut"]

Ahead = Stretch  # what lies ahead of a reader; fronts keep it, and look into it through here only


class PartitionRead(NamedTuple):
    """Batches of one partition with what a reader must know beside them."""

    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: list[tuple[int, int]] | None  # (producer id, first offset); None for read-uncommitted
    batches: Sequence[Chunk]  # a chunk may hold several
    size: int
    end: int = 0  # the offset after the last batch, if there is any


class Bounds(NamedTuple):
    """What may be read of a partition at one moment."""

    high_watermark: int
    last_stable_offset: int
    log_start: int
    upto: int  # for this reader: the first or the second


class Reading:
    def __init__(self, log: Log) -> None:
        self._log = log

    def read(self, partition: Partition, offset: int, max_bytes: int, committed: bool) -> PartitionRead:
        """Whole batches from the one that holds `offset`, at least one if any is there.

        Raises WouldBlock when the disk is needed. Then the three steps are taken one by one: partitions are
        looked at on the loop, which changes them, and only files are read in another thread.
        """
        high = partition.high_watermark
        log_start = partition.log_start
        if offset < log_start or offset > partition.next_offset:
            raise OffsetOutOfRange(offset, log_start, high)
        stable = partition.last_stable_offset()
        upto = stable if committed else high
        if offset >= upto or max_bytes <= 0:
            return PartitionRead(high, stable, log_start, [] if committed else None, (), 0)
        batches, end = self._log.chunks(partition.id, offset, max_bytes, upto)
        aborted = _aborted(partition, offset, end) if committed else None
        return PartitionRead(high, stable, log_start, aborted, batches, sum(map(len, batches)), end)

    def stretch(self, partition: Partition, offset: int, upto: int) -> Stretch | None:
        """Large batches from `offset` on that can be sent as they lie, for a reader who will ask for them
        one after the other. None if there is none such."""
        return find_stretch(self._log, partition.id, offset, upto)

    def go_on(self, stretch: Stretch, offset: int, max_bytes: int, upto: int) -> list[Chunk]:
        """The batches from `offset` on, as `read` would find them. Nothing: ask `read`."""
        self._log.cached.was_read()
        chunks = stretch.take(offset, max_bytes, upto)
        if chunks:
            self._log.cached.was_read_in(stretch.file_id)
        return chunks

    def bounds(self, partition: Partition, offset: int, committed: bool) -> Bounds:
        high = partition.high_watermark
        if offset < partition.log_start or offset > partition.next_offset:
            raise OffsetOutOfRange(offset, partition.log_start, high)
        stable = partition.last_stable_offset()
        return Bounds(high, stable, partition.log_start, stable if committed else high)

    def batches(self, partition_id: int, offset: int, max_bytes: int, upto: int) -> list[Buffer]:
        """One by one. May wait for the disk, and run in any thread."""
        if offset >= upto or max_bytes <= 0:
            return []
        return self._log.read(partition_id, offset, max_bytes, upto, wait=True)

    def chunks(self, partition_id: int, offset: int, max_bytes: int, upto: int) -> tuple[list[Chunk], int]:
        """Batches for sending, and the offset after the last. May wait, and run in any thread."""
        if offset >= upto or max_bytes <= 0:
            return [], 0
        return self._log.chunks(partition_id, offset, max_bytes, upto, wait=True)

    def result(
        self,
        partition: Partition,
        offset: int,
        committed: bool,
        bounds: Bounds,
        batches: Sequence[Chunk],
        end: int,
    ) -> PartitionRead:
        if offset < partition.log_start:
            # Trimmed while it was read: which transactions were aborted there is not known any more.
            raise OffsetOutOfRange(offset, partition.log_start, partition.high_watermark)
        aborted = _aborted(partition, offset, end) if committed else None
        size = sum(map(len, batches))
        high, stable, log_start, _ = bounds
        return PartitionRead(high, stable, log_start, aborted, batches, size, end)

    def sent(self, size: int) -> None:
        """So many bytes of batches go to a client: who waits reads many times and is sent something once."""
        self._log.bytes_sent += size

    # --- offsets by time; these may wait for the disk and belong into a reader thread ------------

    def offset_for_time(self, partition: Partition, timestamp_ms: int, upto: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after a time, as Kafka defines it."""
        return self._log.while_files_change(lambda: self._offset_for_time(partition, timestamp_ms, upto))

    def _offset_for_time(self, partition: Partition, timestamp_ms: int, upto: int) -> tuple[int, int] | None:
        start = partition.log_start
        place = self._log.first_at_or_after(partition.id, timestamp_ms)
        if place is None:
            return None
        if place.last >= start:
            found = self._in_place(place, timestamp_ms, start)
            if found is not None:
                return found if found[0] < upto else None
        # What the index found is trimmed away in part or whole: walk on from the start of the log.
        for place in self._places(partition.id, start, upto):
            found = self._in_place(place, timestamp_ms, start)
            if found is not None:
                return found if found[0] < upto else None
        return None

    def _places(self, partition_id: int, offset: int, upto: int) -> Iterator[Place]:
        """One by one from `offset` on: they may be many."""
        while offset < upto:
            places = self._log.places(partition_id, offset, 1 << 20, upto, wait=True)
            if not places:
                return
            yield from places
            offset = places[-1].last + 1

    def _in_place(self, place: Place, timestamp_ms: int, start: int) -> tuple[int, int] | None:
        (batch,) = self._log.reader.batches([place], True)
        if read_header(batch).max_timestamp_ms < timestamp_ms:
            return None
        return first_at_or_after(batch, timestamp_ms, from_offset=start)

    def max_timestamp(self, partition: Partition, upto: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the record with the greatest timestamp, the first of several.

        None where that one is not below `upto`, whatever lies before it: so does Kafka.
        """
        found = self._log.while_files_change(lambda: self._max_timestamp(partition))
        return found if found is not None and found[0] < upto else None

    def _max_timestamp(self, partition: Partition) -> tuple[int, int] | None:
        start = partition.log_start
        top_ms = self._log.max_timestamp_ms(partition.id)
        if top_ms is None:
            return None
        place = self._log.first_at_or_after(partition.id, top_ms)
        if place is not None and place.last >= start:
            found = self._latest_in(place, start)
            if found is not None and (place.base >= start or found[1] >= top_ms):
                return found
        return self._latest_from(partition.id, start, partition.high_watermark)

    def _latest_from(self, partition_id: int, start: int, upto: int) -> tuple[int, int] | None:
        """What the index found is trimmed away: walk on from the start of the log."""
        top: tuple[int, Place] | None = None
        for place in self._places(partition_id, start, upto):
            top_ms = self._top_ms(place, start)
            if top_ms is not None and (top is None or top_ms > top[0]):
                top = top_ms, place
        return None if top is None else self._latest_in(top[1], start)

    def _top_ms(self, place: Place, start: int) -> int | None:
        """Its head tells, unless it is a link or some of it is trimmed."""
        if place.link or place.base < start:
            found = self._latest_in(place, start)
            return None if found is None else found[1]
        header = self._log.reader.header(place)
        return header.max_timestamp_ms if header.record_count else None

    def _latest_in(self, place: Place, start: int) -> tuple[int, int] | None:
        (batch,) = self._log.reader.batches([place], True)
        return max_timestamp_record(batch, from_offset=start)


def _aborted(partition: Partition, offset: int, end: int) -> list[tuple[int, int]]:
    """Transactions whose records lie between these offsets and do not count."""
    if end <= offset or partition.producers is None:
        return []
    return partition.producers.aborted_between(offset, end)


def is_cut(read: PartitionRead, committed: bool) -> bool:
    """More was there than fitted."""
    return read.end < (read.last_stable_offset if committed else read.high_watermark)
