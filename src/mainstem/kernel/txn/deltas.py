"""The durable form of producers and transactions. Fields are only ever appended, with defaults."""

from __future__ import annotations

import msgspec


class PartitionProducersState(msgspec.Struct, array_like=True, tag=300, frozen=True):
    """All producer state of one partition, for a snapshot. Between snapshots the batches and markers in
    the journal are themselves the deltas."""

    partition_id: int
    end_offset: int
    producers: list[tuple[int, int, int, int, int, list[tuple[int, int, int]]]]
    """(producer id, epoch, next sequence, records known of this epoch, last append in ms,
    window of (base offset, base sequence, record count - 1))."""
    open_transactions: list[tuple[int, int]]
    """(producer id, first offset), lowest first offset first."""
    aborted: list[tuple[int, int, int, int]]
    """(producer id, first offset, marker offset, stable offset after it), in marker order."""
