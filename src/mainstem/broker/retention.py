"""Retention: where each partition's log should start, by age and by size."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.broker.partition import Partition
from mainstem.kernel.log.log import Log


def due_starts(log: Log, partitions: Iterable[Partition], now_ms: int) -> list[tuple[int, int]]:
    """(partition id, new log start) for partitions that hold more than their topic keeps.

    Reads indexes from disk: for a reader thread. Whole batches go, never a part of one.
    """
    due = []
    for partition in partitions:
        if partition.high_watermark == partition.log_start or not partition.topic.policy.delete:
            continue
        start = max(_by_age(log, partition, now_ms), _by_size(log, partition))
        # An open transaction is never cut: its end must find its beginning.
        start = min(start, partition.last_stable_offset())
        if start > partition.log_start:
            due.append((partition.id, start))
    return due


def _by_age(log: Log, partition: Partition, now_ms: int) -> int:
    retention_ms = partition.topic.policy.retention_ms
    if retention_ms < 0:
        return 0
    place = log.first_at_or_after(partition.id, now_ms - retention_ms)
    return partition.high_watermark if place is None else place.base


def _by_size(log: Log, partition: Partition) -> int:
    limit = partition.topic.policy.retention_bytes
    return log.offset_keeping(partition.id, limit) if limit >= 0 else 0
