"""Where batches lie: the index of one file, in memory while the file is written.

One columnar table per file, a row per place, in the order of writing; a partition that was never written
to in this file costs nothing. Rows of one partition are in offset order because appends are.

Types for the compiler are in places.pxd.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from mainstem.kernel.log.journal import BatchAppend
from mainstem.kernel.log.scan import Rows
from mainstem.model.batch import leader_epoch

# Skips the Python function that makes a NamedTuple: look-ups make several for each Fetch.
new_tuple = tuple.__new__


class Place(NamedTuple):
    """Offsets base..last of a partition are the `size` bytes at `position` of file `file_id`.

    With `link` set those bytes are a link's payload, otherwise they are a record batch. `epoch` is the leader
    epoch in the batch's header, which the batch's own crc leaves out; -1 when the index does not know it.
    """

    file_id: int
    base: int
    last: int
    position: int
    size: int
    link: bool
    epoch: int = -1


class Span(NamedTuple):
    """What one file holds of one partition. The timestamp is the greatest of its batches."""

    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    total_bytes: int


class WouldBlock(Exception):
    """The answer is on disk, not in memory, and the caller did not want to wait."""


class Places(Protocol):
    """The index of one file, whether in memory or in a sidecar."""

    file_id: int
    moved: list[tuple[int, int, int]]  # bodies that came here: old file, old position, position

    def span(self, partition: int) -> Span | None: ...

    def find(self, partition: int, offset: int, max_bytes: int, wait: bool) -> list[Place]:
        """Places from the first whose last offset is at or above `offset`, until max_bytes are reached.

        At least one if there is any; with wait=False raises WouldBlock instead of touching the disk.
        """

    def find_time(self, partition: int, timestamp_ms: int, wait: bool) -> Place | None:
        """The first place whose batch reaches the timestamp."""

    def partitions(self) -> list[int]: ...


class PlaceTable:
    """The table of a file that is being written, or was until a moment ago."""

    __slots__ = (
        "_base",
        "_bytes",
        "_epoch",
        "_last",
        "_link",
        "_position",
        "_rows",
        "_size",
        "_top_ms",
        "file_id",
        "moved",
        "targets",
    )

    def __init__(self, file_id: int) -> None:
        self.file_id = file_id
        self._rows: dict[int, array[int]] = {}
        self._base = array("q")
        self._last = array("q")
        self._position = array("q")
        self._size = array("I")
        # Running maximum of the partition's timestamps in this file: sorted, though CreateTime is not.
        self._top_ms = array("q")
        self._link = bytearray()
        self._epoch = array("i")
        self._bytes: dict[int, int] = {}
        # Bodies, (file, position), that links in this file name: no merge may lose them. Of a file that is
        # being written also those in itself, and those that a link named which then went to the next file.
        self.targets: set[tuple[int, int]] = set()
        # Of a run whose sidecar was lost: old file, old position, position here.
        self.moved: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._base)

    def add(
        self,
        partition: int,
        base: int,
        last: int,
        position: int,
        size: int,
        max_timestamp_ms: int,
        link: bool = False,
        epoch: int = -1,
    ) -> None:
        row = len(self._base)
        rows = self._rows.get(partition)
        if rows is not None:
            top_ms = self._top_ms[rows[-1]]
            if top_ms > max_timestamp_ms:
                max_timestamp_ms = top_ms
        self._base.append(base)
        self._last.append(last)
        self._position.append(position)
        self._size.append(size)
        self._top_ms.append(max_timestamp_ms)
        self._link.append(link)
        self._epoch.append(epoch)
        # The partition learns of its row last: readers on other threads must find the columns filled.
        if rows is None:
            self._bytes[partition] = size
            self._rows[partition] = array("I", (row,))
        else:
            self._bytes[partition] += size
            rows.append(row)

    def add_batches(self, appends: list[BatchAppend]) -> None:
        """What `add` does, for a whole round."""
        bases: list[int] = []
        lasts: list[int] = []
        positions: list[int] = []
        sizes: list[int] = []
        epochs: list[int] = []
        for append in appends:
            payload = append.payload
            bases.append(append.base)
            lasts.append(append.last)
            positions.append(append.position)
            sizes.append(len(payload))
            epochs.append(leader_epoch(payload))
        row = len(self._base)
        self._base.extend(bases)
        self._last.extend(lasts)
        self._position.extend(positions)
        self._size.extend(sizes)
        self._epoch.extend(epochs)
        self._link.extend(bytes(len(appends)))
        tops, by_partition, total = self._top_ms, self._rows, self._bytes
        for append in appends:
            partition, top_ms, size = append.subject, append.max_timestamp_ms, len(append.payload)
            rows = by_partition.get(partition)
            if rows is None:
                tops.append(top_ms)
                total[partition] = size
                by_partition[partition] = array("I", (row,))
            else:
                last_ms = tops[rows[-1]]
                tops.append(last_ms if last_ms > top_ms else top_ms)
                total[partition] += size
                rows.append(row)
            row += 1

    def extend(self, found: Rows, start: int, end: int) -> None:
        """Add rows start..end of batches found in a journal: what `add` does, a column at a time."""
        first = len(self._base)
        self._base.extend(found.bases[start:end])
        self._last.extend(found.lasts[start:end])
        self._position.extend(found.positions[start:end])
        self._size.extend(found.sizes[start:end])
        self._top_ms.extend(found.tops[start:end])
        self._link.extend(bytes(end - start))
        self._epoch.extend(found.epochs[start:end])
        tops, by_partition, total = self._top_ms, self._rows, self._bytes
        get = by_partition.get
        for row, partition, size in zip(
            range(first, first + end - start),
            found.partitions[start:end],
            found.sizes[start:end],
            strict=True,
        ):
            rows = get(partition)
            if rows is None:
                total[partition] = size
                by_partition[partition] = array("I", (row,))
            else:
                top_ms = tops[rows[-1]]
                if top_ms > tops[row]:
                    tops[row] = top_ms
                total[partition] += size
                rows.append(row)

    def partitions(self) -> list[int]:
        return sorted(self._rows)

    def span(self, partition: int) -> Span | None:
        rows = self._rows.get(partition)
        if rows is None:
            return None
        first, last = rows[0], rows[-1]
        return new_tuple(
            Span, (self._base[first], self._last[last], self._top_ms[last], self._bytes[partition])
        )

    def find(self, partition: int, offset: int, max_bytes: int, wait: bool = True) -> list[Place]:
        rows = self._rows.get(partition)
        if rows is None:
            return []
        lasts = self._last
        # The tail is what is read most: look at the last row before searching.
        if len(rows) > 1 and lasts[rows[-2]] >= offset:
            index = bisect_left(rows, offset, key=lasts.__getitem__)
        elif lasts[rows[-1]] >= offset:
            index = len(rows) - 1
        else:
            return []
        found = []
        total = 0
        for at in range(index, len(rows)):
            row = rows[at]
            found.append(self._place(row))
            total += self._size[row]
            if total >= max_bytes:
                break
        return found

    def find_time(self, partition: int, timestamp_ms: int, wait: bool = True) -> Place | None:
        rows = self._rows.get(partition)
        if rows is None or self._top_ms[rows[-1]] < timestamp_ms:
            return None
        return self._place(rows[bisect_left(rows, timestamp_ms, key=self._top_ms.__getitem__)])

    def rows(self, partition: int, *, newest_first: bool = False) -> Iterator[tuple[Place, int]]:
        """All places of a partition with their running maximum timestamp; one at a time, they may be many."""
        rows = self._rows[partition]
        for row in reversed(rows) if newest_first else rows:
            yield self._place(row), self._top_ms[row]

    def last_below(self, partition: int, offset: int) -> Place | None:
        """The last place that starts below an offset."""
        rows = self._rows.get(partition)
        if rows is None:
            return None
        index = bisect_right(rows, offset - 1, key=self._base.__getitem__)
        return self._place(rows[index - 1]) if index else None

    def _place(self, row: int) -> Place:
        return new_tuple(
            Place,
            (
                self.file_id,
                self._base[row],
                self._last[row],
                self._position[row],
                self._size[row],
                bool(self._link[row]),
                self._epoch[row],
            ),
        )


def bytes_of(places: list[Place]) -> int:
    total = 0
    for _, _, _, _, size, _, _ in places:
        total += size
    return total


def find_across(
    tables: tuple[Places, ...], partition: int, offset: int, max_bytes: int, wait: bool
) -> list[Place]:
    """Of several files: back to the one that holds `offset`, then forward until max_bytes are reached."""
    holding: list[Places] = []
    for places in reversed(tables):
        span = places.span(partition)
        if span is None or span.last_offset < offset:
            continue
        holding.append(places)
        if span.first_offset <= offset:
            break
    found: list[Place] = []
    for places in reversed(holding):
        more = places.find(partition, offset, max_bytes, wait)
        found += more
        max_bytes -= bytes_of(more)
        if max_bytes <= 0:
            break
    return found
