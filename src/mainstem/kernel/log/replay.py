"""Turn the frames of a file into places, and into calls that rebuild state.

Batches are nearly all that a journal holds: their rows are gathered per window and added to the table as
columns. Everything else is rare enough to be taken one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from mainstem.kernel.log.layout import ENTRY_HEAD, MOVED_BODY, FrameKind, unpack_link
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.scan import Rows, Window, batch_rows
from mainstem.model.batch import BatchHeader, iter_batches, read_header
from mainstem.model.errors import FormatTooNew


class Replay(Protocol):
    """Who rebuilds state from what the log holds. Called in journal order.

    With `reached` set, batches without a producer are not handed out one by one: it is told the last offset
    of each partition among a stretch of them, which is all that they change, and is much faster.
    """

    @property
    def reached(self) -> Callable[[Mapping[int, int]], None] | None: ...

    def delta(self, section: int, payload: bytes) -> None: ...

    def batch(self, partition: int, batch: memoryview) -> None: ...

    def link(self, partition: int, base: int, last: int) -> None: ...


class NoReplay:
    """For those who only want the places."""

    def reached(self, lasts: Mapping[int, int]) -> None: ...

    def delta(self, section: int, payload: bytes) -> None: ...

    def batch(self, partition: int, batch: memoryview) -> None: ...

    def link(self, partition: int, base: int, last: int) -> None: ...


@dataclass(slots=True)
class FrameReader:
    """Takes files window by window, in order; only frames behind the snapshot's position are replayed."""

    replay: Replay
    replay_from: tuple[int, int]
    round_number: int = 0
    frames: int = 0
    sealed: bool = False

    def take(self, window: Window, file_id: int, table: PlaceTable) -> None:
        found = window.found
        replay_file, replay_position = self.replay_from
        if file_id != replay_file:
            replay_position = 0 if file_id > replay_file else 1 << 62
        rows = batch_rows(window.view, window.origin, found)
        self.frames += len(found.kinds)
        self.round_number = rows.round_number or self.round_number
        self.sealed = rows.sealed
        done = 0
        for index, before in zip(rows.others, rows.before, strict=True):
            self._batches(window, rows, done, before, table, replay_position)
            done = before
            kind, subject, position = found.kinds[index], found.subjects[index], found.positions[index]
            # The payload of a frame behind the snapshot's position starts after it, even if it is empty.
            live = position > replay_position
            self._frame(kind, subject, window.payload(index), position, table, live)
        self._batches(window, rows, done, len(rows.partitions), table, replay_position)

    def _batches(
        self, window: Window, rows: Rows, start: int, end: int, table: PlaceTable, replay_position: int
    ) -> None:
        table.extend(rows, start, end)
        if start == end or rows.positions[end - 1] <= replay_position:
            return
        replay, view, origin = self.replay.batch, window.view, window.origin
        start = bisect_right(rows.positions, replay_position, start, end)
        wanted: Iterable[int] = range(start, end)
        if self.replay.reached is not None:
            self.replay.reached(dict(zip(rows.partitions[start:end], rows.lasts[start:end], strict=True)))
            wanted = [row for row in wanted if rows.producers[row] >= 0]
        for row in wanted:
            at = rows.positions[row] - origin
            replay(rows.partitions[row], view[at : at + rows.sizes[row]])

    def _add(self, table: PlaceTable, partition: int, header: BatchHeader, position: int) -> None:
        base, last, top_ms = header.base_offset, header.last_offset, header.max_timestamp_ms
        table.add(partition, base, last, position, header.size, top_ms, epoch=header.leader_epoch)

    def _frame(
        self, kind: int, subject: int, payload: memoryview, position: int, table: PlaceTable, live: bool
    ) -> None:
        if kind == FrameKind.BATCH:  # in an atomic frame
            header = read_header(payload)
            self._add(table, subject, header, position)
            if live:
                self.replay.batch(subject, payload)
        elif kind == FrameKind.DELTA:
            if live:
                self.replay.delta(subject, bytes(payload))
        elif kind == FrameKind.LINK:
            link = unpack_link(payload)
            assert link is not None  # the frame's crc covers it
            last = link.base_offset + link.records - 1
            table.add(
                subject, link.base_offset, last, position, len(payload), link.max_timestamp_ms, link=True
            )
            if link.body_file not in (0, table.file_id):
                table.targets.add((link.body_file, link.body_position))
            if live:
                self.replay.link(subject, link.base_offset, last)
        elif kind == FrameKind.ATOMIC:
            for entry_kind, entry_subject, at, entry in atomic_entries(payload):
                self._frame(entry_kind, entry_subject, entry, position + at, table, live)
        elif kind == FrameKind.EXTENT:
            for at, header in iter_batches(payload):
                self._add(table, subject, header, position + at)
        elif kind == FrameKind.MOVED:
            table.moved.extend(MOVED_BODY.iter_unpack(payload))
        elif kind != FrameKind.BODY:
            raise FormatTooNew(f"a frame of kind {kind} at {position} of file {table.file_id} is not known")


def atomic_entries(payload: memoryview) -> Iterator[tuple[int, int, int, memoryview]]:
    """(kind, subject, where its bytes start, its bytes) of each entry of an atomic frame."""
    at = 0
    while at < len(payload):
        size, kind, subject = ENTRY_HEAD.unpack_from(payload, at)
        at += ENTRY_HEAD.size
        yield kind, subject, at, payload[at : at + size]
        at += size
