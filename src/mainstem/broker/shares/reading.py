"""The batches that hold some records, and which of these a reader is to see: no markers, nothing aborted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mainstem.broker.partition import Partition
from mainstem.broker.reading import Reading
from mainstem.kernel.subs.leased_lane import Lent
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.model.batch import read_header
from mainstem.model.errors import CorruptFile
from mainstem.model.records import read_control


class Wanted(NamedTuple):
    """What a member asks for at once."""

    max_records: int
    max_bytes: int
    max_wait_ms: int
    strict: bool  # not a record more, though a batch may hold more


class _Head(NamedTuple):
    """A batch, as far as it matters who may see it."""

    first: int
    stop: int
    producer_id: int  # -1 if it is in no transaction
    marker: bool
    commits: bool
    empty: bool  # it has no records: offsets that were skipped, or what compaction left


class Piece(NamedTuple):
    """Batches without a hole in the reading: what began before one of them was seen from there on."""

    first: int
    heads: list[_Head]


class Found(NamedTuple):
    data: bytes
    pieces: list[Piece]
    upto: int  # all that was asked for below this was read, as far as it is there

    @property
    def empty_upto(self) -> int:
        """Where the last batch ends, if it has no records: it may reach far beyond what was asked for."""
        last = self.pieces[-1].heads[-1] if self.pieces and self.pieces[-1].heads else None
        return last.stop if last is not None and last.empty else 0


def read_lent(reading: Reading, partition_id: int, lent: Sequence[Lent], max_bytes: int, upto: int) -> Found:
    """In a reader thread: nothing is touched here but files."""
    data: list[bytes] = []
    pieces: list[Piece] = []
    left, seen = max_bytes, -1  # `seen`: batches were read up to here
    for first, stop in _joined(lent):
        at = max(first, seen)
        if at >= stop:
            continue
        heads: list[_Head] = []
        if at == seen and pieces:
            heads = pieces[-1].heads  # goes on without a hole
        else:
            pieces.append(Piece(at, heads))
        while at < stop:
            if left <= 0:
                return Found(b"".join(data), pieces, at)
            try:
                batches = reading.batches(partition_id, at, left, min(stop, upto))
            except CorruptFile:
                if data:
                    return Found(b"".join(data), pieces, at)  # whoever is lent what is behind is told
                raise
            if not batches:  # nothing is there any more: compacted away
                break
            for batch in map(bytes, batches):
                head = _head(batch)
                if not head.empty:
                    data.append(batch)
                    left -= len(batch)
                heads.append(head)
            at = seen = heads[-1].stop
    return Found(b"".join(data), pieces, lent[-1].stop if lent else 0)


def _joined(lent: Iterable[Lent]) -> list[tuple[int, int]]:
    """The stretches to read, whatever their counts."""
    runs: list[tuple[int, int]] = []
    for first, stop, _ in lent:
        if runs and runs[-1][1] == first:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((first, stop))
    return runs


def _head(batch: bytes) -> _Head:
    header = read_header(batch)
    marker = header.is_control
    producer_id = header.producer_id if marker or header.is_transactional else -1
    commits = marker and read_control(batch)
    empty = header.record_count == 0
    return _Head(header.base_offset, header.last_offset + 1, producer_id, marker, commits, empty)


def visible(partition: Partition, pieces: Iterable[Piece], committed: bool) -> list[tuple[int, int]]:
    """The stretches of offsets that hold records for a reader, ascending."""
    shown: list[tuple[int, int]] = []
    for piece in pieces:
        if piece.heads:
            aborted = _aborted(partition.producers if committed else None, piece)
            for head in piece.heads:
                if not head.marker and not head.empty and head not in aborted:
                    shown.append((head.first, head.stop))
    return shown


def _aborted(producers: PartitionProducers | None, piece: Piece) -> set[_Head]:
    if producers is None:
        return set()
    begun = producers.aborted_between(piece.first, piece.heads[-1].stop)
    if not begun:
        return set()
    under_way: set[int] = set()
    found: set[_Head] = set()
    at = 0
    for head in piece.heads:
        while at < len(begun) and begun[at][1] < head.stop:
            under_way.add(begun[at][0])
            at += 1
        if head.marker:
            under_way.discard(head.producer_id)
        elif head.producer_id in under_way:
            found.add(head)
    return found


def split(lent: Iterable[Lent], shown: Sequence[tuple[int, int]]) -> tuple[list[Lent], list[tuple[int, int]]]:
    """What of the lent is to be seen, and the stretches where there is nothing to see."""
    seen: list[Lent] = []
    empty: list[tuple[int, int]] = []
    at = 0
    for first, stop, delivery in lent:
        while at < len(shown) and shown[at][1] <= first:
            at += 1
        here, next_at = first, at
        while here < stop:
            if next_at == len(shown) or shown[next_at][0] >= stop:
                empty.append((here, stop))
                break
            shown_first, shown_stop = shown[next_at]
            if here < shown_first:
                empty.append((here, shown_first))
                here = shown_first
            end = min(stop, shown_stop)
            if seen and seen[-1].stop == here and seen[-1].delivery == delivery:
                seen[-1] = seen[-1]._replace(stop=end)
            else:
                seen.append(Lent(here, end, delivery))
            here = end
            next_at += 1
    return seen, empty
