"""The durable form of producers and transactions. Fields are only ever appended, with defaults."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class PartitionProducersState(msgspec.Struct, array_like=True, tag=60, frozen=True):
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


class ProducerIdsReserved(msgspec.Struct, array_like=True, tag=61, frozen=True):
    """Every id below `up_to` may have been handed out."""

    up_to: int


class TxnInitialised(msgspec.Struct, array_like=True, tag=62, frozen=True):
    """A transactional id now belongs to (producer_id, epoch), with no transaction open.

    `last_*` is the identity it replaced, if the same producer asked for the change (-1 otherwise): a retry
    of that request is recognised by it.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    last_producer_id: int
    last_epoch: int
    timeout_ms: int
    now_ms: int


class TxnAdded(msgspec.Struct, array_like=True, tag=63, frozen=True):
    """Partitions and groups join the open transaction; the first of these opens it."""

    transactional_id: str
    partitions: list[int]
    groups: list[str]
    now_ms: int


class TxnEnded(msgspec.Struct, array_like=True, tag=64, frozen=True):
    """Committed or aborted. In one frame with the markers and the groups' offsets, so it is never seen
    without them. (producer_id, epoch) is the identity from here on, `last_*` the one that ended it."""

    transactional_id: str
    commit: bool
    producer_id: int
    epoch: int
    last_producer_id: int
    last_epoch: int
    now_ms: int


class TxnForgotten(msgspec.Struct, array_like=True, tag=65, frozen=True):
    """The transactional id was idle too long."""

    transactional_id: str


TxnDelta: TypeAlias = TxnInitialised | TxnAdded | TxnEnded | TxnForgotten
CoordinatorDelta: TypeAlias = ProducerIdsReserved | TxnDelta
