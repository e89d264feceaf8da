"""Reading partitions to their end or for ever: what `consume` and `message find` share."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from mainstem.client import codes

if TYPE_CHECKING:
    from mainstem.client import Client, TopicPartition
    from mainstem.model.records import Record

WAIT_MS = 500
WIDEN = 4  # how many times as far back to look where holes left too few messages
PARTITION_MAX_BYTES = 4 << 20


class Reader:
    """Reads from `positions` on; `positions` moves on as records are taken.

    With `ends`, a partition is done when it is there, or when the broker has nothing more of it: the last
    offsets may be holes. Without, reading goes on for ever.
    """

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None = None,
        *,
        committed: bool = True,
        after_fetch: Callable[[], object] = lambda: None,
    ) -> None:
        """`after_fetch` is called when all that came was taken, and now and then while nothing comes."""
        self.positions = dict(positions)
        self._after_fetch = after_fetch
        self._client = client
        self._ends = ends
        self._committed = committed
        self._stopped: set[TopicPartition] = set()

    @property
    def left(self) -> int:
        """Offsets still to be read, of those that have an end."""
        ends = self._ends or {}
        return sum(max(0, ends[place] - at) for place, at in self.positions.items() if place in ends)

    def records(self) -> Iterator[tuple[TopicPartition, Record]]:
        """In offset order within each partition."""
        while wanted := self._unfinished():
            got_nothing = True
            for fetched in self._client.fetch(
                wanted,
                max_wait_ms=WAIT_MS,
                partition_max_bytes=PARTITION_MAX_BYTES,
                committed=self._committed,
            ):
                place = fetched.place
                if fetched.error_code == codes.OFFSET_OUT_OF_RANGE and fetched.log_start > fetched.offset:
                    self.positions[place] = fetched.log_start  # trimmed while we were reading
                    got_nothing = False
                    continue
                fetched.check()
                got_nothing = got_nothing and not fetched.records
                end = self._ends[place] if self._ends is not None else None
                for record in fetched.decoded(committed=self._committed):
                    if end is not None and record.offset >= end:
                        break
                    self.positions[place] = record.offset + 1
                    yield place, record
                # Past markers, aborted records and holes, too.
                passed = fetched.next_offset if end is None else min(fetched.next_offset, end)
                self.positions[place] = max(self.positions[place], passed)
                if passed == fetched.offset and self._committed and fetched.last_stable_offset <= passed:
                    # The rest belongs to transactions that are still open: it is not there to be read.
                    self._stopped.add(place)
            self._after_fetch()
            if got_nothing:  # of any: not one that had to wait for the others' bytes
                self._stopped.update(wanted)

    def _unfinished(self) -> dict[TopicPartition, int]:
        if self._ends is None:
            return dict(self.positions)
        return {
            place: at
            for place, at in self.positions.items()
            if at < self._ends[place] and place not in self._stopped
        }


def newest(
    client: Client, bounds: Mapping[TopicPartition, tuple[int, int]], count: int, *, committed: bool = True
) -> tuple[list[tuple[TopicPartition, Record]], dict[TopicPartition, int]]:
    """The `count` newest by timestamp of what lies in these bounds, and where reading goes on.

    The last `count` messages of each partition are looked at, which may be further back than as many offsets:
    some have no message. Of each partition they come in order, whatever their timestamps.
    """
    found: dict[TopicPartition, deque[Record]] = {}
    positions: dict[TopicPartition, int] = {}
    left, span = dict(bounds), count
    while left:
        starts = {place: max(first, end - span) for place, (first, end) in left.items()}
        found.update((place, deque(maxlen=count)) for place in left)
        reader = Reader(client, starts, {place: end for place, (_, end) in left.items()}, committed=committed)
        for place, record in reader.records():
            found[place].append(record)
        positions.update(reader.positions)
        left = {
            place: (first, end)
            for place, (first, end) in left.items()
            if len(found[place]) < count and starts[place] > first
        }
        span *= WIDEN
    every = ((record.timestamp_ms, *place, record.offset) for place in found for record in found[place])
    chosen = set(heapq.nlargest(count, every))
    streams = (
        [(place, record) for record in found[place] if (record.timestamp_ms, *place, record.offset) in chosen]
        for place in found
    )
    merged = heapq.merge(*streams, key=lambda one: (one[1].timestamp_ms, one[0]))
    return list(merged), positions
