"""Where a partition should start by age, when its index knows later times than what is left of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from merge_house import House, records

from mainstem.broker import retention
from mainstem.broker.retention import due_starts
from mainstem.model.errors import CorruptFile
from mainstem.model.records import encode_batch
from mainstem.testing.memory_disk import MemoryDisk

DAY_MS = 86_400_000
FUTURE_MS = 10**13


def put(house: House, timestamp_ms: int, partition: int = 1) -> tuple[int, int]:
    base = house.ends.get(partition, 0)
    batch = encode_batch(records(2, "x", timestamp_ms=timestamp_ms), base_offset=base)
    return house.append_batch(partition, bytes(batch))


def partition_of(house: House, number: int, log_start: int) -> Any:
    policy = SimpleNamespace(delete=True, retention_ms=1000, retention_bytes=-1)
    end = house.ends[number]
    return SimpleNamespace(
        id=number, high_watermark=end, log_start=log_start, topic=SimpleNamespace(policy=policy)
    )


def due(house: House, log_start: int) -> int | None:
    found = due_starts(house.log, [partition_of(house, 1, log_start)], DAY_MS, no_damage)
    return found[0][1] if found else None


def no_damage(partition: object, error: CorruptFile) -> None:
    raise error


@pytest.mark.parametrize("finished", [False, True])
def test_a_trimmed_record_from_the_future_does_not_hold_up_what_is_old(tmp_path, finished):
    house = House(str(tmp_path / "data"))
    put(house, FUTURE_MS)
    for at in range(20):
        put(house, 1000 + at)
    house.trim(1, 2)
    if finished:
        house.settle()
        house.plan()
    assert due(house, log_start=2) == house.ends[1]
    young = house.ends[1]
    put(house, DAY_MS)
    put(house, 1000)
    assert due(house, log_start=2) == young


def test_a_record_from_the_future_that_is_not_trimmed_stays_and_all_behind_it(tmp_path):
    house = House(str(tmp_path / "data"))
    put(house, FUTURE_MS)
    put(house, 1000)
    assert due(house, log_start=1) is None


def test_what_is_damaged_keeps_no_other_partition_from_expiring(monkeypatch):
    """Nor what lies before it in its own."""
    monkeypatch.setattr(retention, "READ_BYTES", 300)  # a batch or two
    house = House("/data", disk=(disk := MemoryDisk("/data")))
    put(house, FUTURE_MS)
    for _ in range(5):
        put(house, 1000)
    file_id, position = put(house, 1000)
    put(house, 1000, partition=2)
    house.settle()
    house.plan()
    disk.change(f"/data/files/{file_id:010d}.journal", lambda data: data.__setitem__(position + 100, 0))
    told: list[int] = []

    def due_now(log_start: int) -> list[tuple[int, int]]:
        partitions = [partition_of(house, 1, log_start), partition_of(house, 2, 0)]
        found = due_starts(house.log, partitions, DAY_MS, lambda partition, _: told.append(partition.id))
        return [(partition.id, start) for partition, start in found]

    assert due_now(2) == [(1, house.ends[1] - 2), (2, 2)]
    assert not told
    assert due_now(house.ends[1] - 2) == [(2, 2)]
    assert told == [1]
