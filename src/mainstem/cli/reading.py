"""Reading partitions to their end or for ever: what `consume` and `message find` share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mainstem.client import codes

if TYPE_CHECKING:
    from mainstem.client import Client, TopicPartition
    from mainstem.model.records import Record

WAIT_MS = 500
PARTITION_MAX_BYTES = 4 << 20


class Reader:
    """Reads from `positions` on; `positions` moves on as records are taken.

    With `ends`, a partition is done when it is there; without, reading goes on for ever.
    """

    def __init__(
        self,
        client: Client,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None = None,
        *,
        committed: bool = True,
    ) -> None:
        self.positions = dict(positions)
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
            for fetched in self._client.fetch(
                wanted,
                max_wait_ms=WAIT_MS,
                partition_max_bytes=PARTITION_MAX_BYTES,
                committed=self._committed,
            ):
                place = fetched.place
                if fetched.error_code == codes.OFFSET_OUT_OF_RANGE and fetched.log_start > fetched.offset:
                    self.positions[place] = fetched.log_start  # trimmed while we were reading
                    continue
                fetched.check()
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

    def _unfinished(self) -> dict[TopicPartition, int]:
        if self._ends is None:
            return dict(self.positions)
        return {
            place: at
            for place, at in self.positions.items()
            if at < self._ends[place] and place not in self._stopped
        }
