"""Retention: where each partition's log should start, by age and by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mainstem.broker.partition import Partition
from mainstem.kernel.log.log import Log
from mainstem.model.batch import read_header
from mainstem.model.errors import CorruptFile

READ_BYTES = 1 << 20
OnDamage = Callable[[Partition, CorruptFile], None]


def due_starts(
    log: Log, partitions: Iterable[Partition], now_ms: int, on_damage: OnDamage
) -> list[tuple[Partition, int]]:
    """Partitions that hold more than their topic keeps, and where each should start; see `allowed_start`.

    Reads indexes, sometimes batches, from disk: for a reader thread. Whole batches go, never a part of one.
    """
    due = []
    for partition in partitions:
        if partition.high_watermark == partition.log_start or not partition.topic.policy.delete:
            continue
        try:
            start = max(_by_age(log, partition, now_ms), _by_size(log, partition))
        except CorruptFile as error:
            on_damage(partition, error)  # of this partition: the others go on
            continue
        if start > partition.log_start:
            due.append((partition, start))
    return due


def allowed_start(partition: Partition, start: int) -> int:
    """An open transaction is never cut: its end must find its beginning. On the loop, which writes them."""
    return min(start, partition.last_stable_offset())


def _by_age(log: Log, partition: Partition, now_ms: int) -> int:
    retention_ms = partition.topic.policy.retention_ms
    if retention_ms < 0:
        return 0
    # Read first: what is written during the look-up is not old, whatever the look-up says.
    high_watermark = partition.high_watermark
    young_ms, start = now_ms - retention_ms, partition.log_start
    place = log.first_at_or_after(partition.id, young_ms)
    if place is not None and place.last < start:
        # The index knows running maxima: what was trimmed may still hide that all behind it is old.
        return _first_young(log, partition.id, start, young_ms, high_watermark)
    return high_watermark if place is None else place.base


def _first_young(log: Log, partition_id: int, start: int, young_ms: int, upto: int) -> int:
    """From the batches themselves. What is passed over is due, so hardly anything is read twice."""
    offset = start
    while offset < upto:
        try:
            batches = log.read(partition_id, offset, READ_BYTES, upto, wait=True)
        except CorruptFile:
            if offset > start:
                break  # what is before the damage is due
            raise
        if not batches:
            break
        for batch in batches:
            header = read_header(batch)
            if header.max_timestamp_ms >= young_ms:
                return offset
            offset = header.last_offset + 1
    return offset


def _by_size(log: Log, partition: Partition) -> int:
    limit = partition.topic.policy.retention_bytes
    return log.offset_keeping(partition.id, limit) if limit >= 0 else 0
