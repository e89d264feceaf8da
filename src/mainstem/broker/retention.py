"""Retention: where each partition's log should start, by age and by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from mainstem.broker.partition import Partition
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.places import Place
from mainstem.model.errors import CorruptFile

READ_BYTES = 1 << 20
OnDamage = Callable[[Partition, CorruptFile], None]
_NOTHING_HELD: Mapping[int, int] = MappingProxyType({})


def due_starts(
    log: Log,
    partitions: Iterable[Partition],
    now_ms: int,
    on_damage: OnDamage,
    held: Mapping[int, int] = _NOTHING_HELD,
) -> list[tuple[Partition, int]]:
    """Partitions that hold more than their topic keeps, and where each should start; see `allowed_start`.

    Reads indexes, sometimes heads of batches, from disk: for a reader thread. Whole batches go, never a part
    of one. `held` says, by partition id, where an open transaction begins: batches behind it are not read.
    """
    due = []
    for partition in partitions:
        stop = min(partition.high_watermark, held.get(partition.id, partition.high_watermark))
        if stop <= partition.log_start or not partition.topic.policy.delete:
            continue
        start = partition.log_start
        for rule in (_by_age, _by_size):
            try:
                start = max(start, rule(log, partition, now_ms, stop))
            except CorruptFile as error:
                # Of this rule and this partition: the other rule may take the damage away.
                on_damage(partition, error)
        if start > partition.log_start:
            due.append((partition, start))
    return due


def allowed_start(partition: Partition, start: int) -> int:
    """An open transaction is never cut: its end must find its beginning. On the loop, which writes them."""
    return min(start, partition.last_stable_offset())


def _by_age(log: Log, partition: Partition, now_ms: int, stop: int) -> int:
    retention_ms = partition.topic.policy.retention_ms
    if retention_ms < 0:
        return 0
    # Read first: what is written during the look-up is not old, whatever the look-up says.
    high_watermark = partition.high_watermark
    young_ms, start = now_ms - retention_ms, partition.log_start
    place = log.first_at_or_after(partition.id, young_ms)
    if place is not None and place.last < start:
        # The index knows running maxima: what was trimmed may still hide that all behind it is old.
        return _first_young(log, partition.id, start, young_ms, stop)
    return high_watermark if place is None else place.base


def _first_young(log: Log, partition_id: int, start: int, young_ms: int, upto: int) -> int:
    """From the heads of the batches themselves. What is passed over is due, so hardly anything is read twice.

    A damaged batch is stepped over, and goes with whatever is due behind it.
    """
    damage: CorruptFile | None = None
    places: list[Place] = []

    def look() -> tuple[int, bool]:
        """The offset behind old batches that lie at `offset`, and whether the one there is young."""
        places.clear()
        places.extend(log.places(partition_id, offset, READ_BYTES, upto, wait=True))
        after = offset
        for place in places:
            try:
                if _is_young(log, place, young_ms):
                    return after, True
            except CorruptFile:
                if after == offset:
                    raise
                break
            after = place.last + 1
        return after, False

    due = offset = start
    while offset < upto:
        try:
            after, met_young = log.while_files_change(look)
        except CorruptFile as error:
            damage = damage or error
            if not places:  # it is the index
                break
            offset = places[0].last + 1
            continue
        if after > offset:
            due = offset = after
        if met_young or not places:
            break
    if damage is not None and due == start:
        raise damage
    return due


def _is_young(log: Log, place: Place, young_ms: int) -> bool:
    if place.link:
        return log.reader.link(place, True).max_timestamp_ms >= young_ms
    if log.reader.header(place).max_timestamp_ms < young_ms:
        return False
    log.reader.batches([place], True)  # a damaged head must not keep what is behind it for ever
    return True


def _by_size(log: Log, partition: Partition, now_ms: int, stop: int) -> int:
    limit = partition.topic.policy.retention_bytes
    return log.offset_keeping(partition.id, limit) if limit >= 0 else 0
