"""Where a partition should start by age, when its index knows later times than what is left of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from merge_house import House, records

from mainstem.broker import retention
from mainstem.broker.retention import due_starts
from mainstem.model.batch import BATCH_OVERHEAD
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


def damage(house: House, body: tuple[int, int], at: int) -> None:
    path = f"/data/files/{body[0]:010d}.journal"
    house.disk.change(path, lambda data: data.__setitem__(body[1] + at, data[body[1] + at] ^ 1))
    house.log.reader._sound.__init__()


IN_BASE_OFFSET, IN_TOP_TIMESTAMP, IN_RECORDS = 7, 37, 100


def memory_house() -> House:
    house = House("/data", disk=MemoryDisk("/data"))
    put(house, FUTURE_MS)
    return house


def test_what_is_damaged_keeps_no_other_partition_from_expiring(monkeypatch):
    """Nor what lies before it in its own."""
    monkeypatch.setattr(retention, "READ_BYTES", 300)  # a batch or two
    house = memory_house()
    for _ in range(5):
        put(house, 1000)
    bad = put(house, 1000)
    put(house, 1000, partition=2)
    house.settle()
    house.plan()
    damage(house, bad, IN_BASE_OFFSET)
    told: list[int] = []

    def due_now(log_start: int) -> list[tuple[int, int]]:
        partitions = [partition_of(house, 1, log_start), partition_of(house, 2, 0)]
        found = due_starts(house.log, partitions, DAY_MS, lambda partition, _: told.append(partition.id))
        return [(partition.id, start) for partition, start in found]

    assert due_now(2) == [(1, house.ends[1] - 2), (2, 2)]
    assert not told
    assert due_now(house.ends[1] - 2) == [(2, 2)]
    assert told == [1]


@pytest.mark.parametrize("at", [IN_BASE_OFFSET, IN_TOP_TIMESTAMP, IN_RECORDS])
@pytest.mark.parametrize("page_bytes", [1, 300, 1 << 20])
def test_damaged_batches_go_with_what_is_old_behind_them(monkeypatch, at, page_bytes):
    monkeypatch.setattr(retention, "READ_BYTES", page_bytes)
    house = memory_house()
    bad = [put(house, 1000), put(house, 1000)]
    for _ in range(5):
        put(house, 1000)
    bad.append(put(house, 1000))
    put(house, 1000)
    young = house.ends[1]
    put(house, DAY_MS)
    for body in bad:
        damage(house, body, at)
    assert due(house, log_start=2) == young


def test_a_damaged_batch_before_a_young_one_stays_and_is_told_of():
    house = memory_house()
    bad = put(house, 1000)
    put(house, DAY_MS)
    damage(house, bad, IN_BASE_OFFSET)
    with pytest.raises(CorruptFile):
        due(house, log_start=2)


def test_retention_by_size_takes_what_retention_by_age_cannot_read():
    house = memory_house()
    bad = put(house, 1000)
    damage(house, bad, IN_BASE_OFFSET)
    put(house, DAY_MS)
    for _ in range(20):
        put(house, DAY_MS)
    partition = partition_of(house, 1, log_start=2)
    partition.topic.policy.retention_bytes = 500
    told: list[CorruptFile] = []
    ((_, start),) = due_starts(house.log, [partition], DAY_MS, lambda _, error: told.append(error))
    assert start == house.log.offset_keeping(1, 500) > 4
    assert len(told) == 1


def test_only_heads_are_read_and_none_behind_an_open_transaction(monkeypatch):
    house = memory_house()
    for _ in range(200):
        put(house, 1000)
    read: list[int] = []
    pread = house.log.reader._read
    monkeypatch.setattr(house.log.reader, "_read", lambda *a: read.append(a[2]) or pread(*a))

    def due_with(held: dict[int, int], log_start: int) -> int | None:
        read.clear()
        partitions = [partition_of(house, 1, log_start)]
        found = due_starts(house.log, partitions, DAY_MS, no_damage, held)
        return found[0][1] if found else None

    assert due_with({}, 2) == house.ends[1]
    assert read == [BATCH_OVERHEAD] * 200
    assert due_with({1: 10}, 2) == 10
    assert read == [BATCH_OVERHEAD] * 4
    assert due_with({1: 10}, 10) is None
    assert read == []


def test_links_expire_by_the_time_they_carry():
    house = memory_house()
    body = put(house, 1000, partition=3)
    house.link(1, body)
    put(house, 1000)
    young = put(house, DAY_MS, partition=3)
    house.link(1, young)
    assert due(house, log_start=2) == house.ends[1] - 1
