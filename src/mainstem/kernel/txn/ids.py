"""Producer ids, never given twice.

Ids are handed out from blocks. A block is reserved by a delta before its first id is answered, so a crash
skips what was left of it. Until that delta is known to be synced each allocation carries it again: an id
must not be answered on the strength of a frame that a power cut could take back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mainstem.kernel.txn.deltas import ProducerIdsReserved

BLOCK_IDS: Final = 1000


class ProducerIds:
    __slots__ = ("_next", "_reserved", "_synced")

    def __init__(self) -> None:
        self._next = 0
        self._reserved = 0  # ids below this are covered by a delta
        self._synced = 0  # ... by one that is on disk

    def allocate(self) -> tuple[int, ProducerIdsReserved | None]:
        """A fresh id, and the delta that must be on disk before it is answered (None: it is there)."""
        producer_id = self._next
        self._next += 1
        if producer_id >= self._reserved:
            self._reserved = producer_id + BLOCK_IDS
        return producer_id, ProducerIdsReserved(self._reserved) if producer_id >= self._synced else None

    def synced(self, delta: ProducerIdsReserved) -> None:
        self._synced = max(self._synced, delta.up_to)

    def apply(self, delta: ProducerIdsReserved) -> None:
        """Replay. For a block that `allocate` itself opened there is nothing left to do."""
        if delta.up_to > self._reserved:
            self._next = self._reserved = self._synced = delta.up_to

    def dump(self) -> Iterator[ProducerIdsReserved]:
        if self._reserved:
            yield ProducerIdsReserved(self._reserved)
