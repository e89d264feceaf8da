"""Where a partition should start by age, when its index knows later times than what is left of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from merge_house import House, records

from mainstem.broker.retention import due_starts
from mainstem.model.records import encode_batch

DAY_MS = 86_400_000
FUTURE_MS = 10**13


def put(house: House, timestamp_ms: int) -> None:
    base = house.ends.get(1, 0)
    batch = encode_batch(records(2, "x", timestamp_ms=timestamp_ms), base_offset=base)
    house.append_batch(1, bytes(batch))


def due(house: House, log_start: int) -> int | None:
    policy = SimpleNamespace(delete=True, retention_ms=1000, retention_bytes=-1)
    topic = SimpleNamespace(policy=policy)
    partition = SimpleNamespace(id=1, high_watermark=house.ends[1], log_start=log_start, topic=topic)
    found = due_starts(house.log, [partition], DAY_MS)
    return found[0][1] if found else None


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
