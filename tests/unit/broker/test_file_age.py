"""When the file that is being written is finished though it is not full."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from mainstem.broker.file_age import SOONEST_MS, FileAge

HOUR_MS = 3_600_000


class FakeLog:
    """Begins another file when told to finish one with something in it."""

    def __init__(self) -> None:
        self.written: dict[int, object] = {}
        self.active_table = SimpleNamespace(file_id=1, partitions=lambda: sorted(self.written))

    def finish_file(self) -> bool:
        if not self.written:
            return False
        self.written.clear()
        self.active_table.file_id += 1
        return True


def finished_at(log: FakeLog, topics: SimpleNamespace, upto_ms: int, write_ms: tuple[int, ...]) -> list[int]:
    """At which times a file was, if partition 1 is written to at some."""
    age = FileAge(log, topics, HOUR_MS)  # type: ignore[arg-type]
    found: list[int] = []

    async def run() -> None:
        for now_ms in range(0, upto_ms, 1000):
            if now_ms in write_ms:
                log.written[1] = True
            before = log.active_table.file_id
            await age.look(now_ms)
            if log.active_table.file_id != before:
                found.append(now_ms)

    asyncio.run(run())
    return found


def topics(compact: bool, segment_ms: int) -> SimpleNamespace:
    policy = SimpleNamespace(compact=compact, segment_ms=segment_ms)
    return SimpleNamespace(partitions={1: SimpleNamespace(topic=SimpleNamespace(policy=policy))})


@pytest.mark.parametrize(
    ("compact", "segment_ms", "age_ms"),
    [
        (False, 1, HOUR_MS),
        (True, 100 * HOUR_MS, HOUR_MS),
        (True, 60_000, 60_000),
        (True, 1, SOONEST_MS),
    ],
)
def test_a_file_is_finished_at_the_age_that_its_topics_want(compact, segment_ms, age_ms):
    found = finished_at(FakeLog(), topics(compact, segment_ms), 3 * HOUR_MS, (0,))
    assert found == [age_ms]


def test_a_file_with_nothing_in_it_does_not_age():
    found = finished_at(FakeLog(), topics(False, 1), 5 * HOUR_MS, (3 * HOUR_MS + 60_000,))
    assert found == [4 * HOUR_MS]


def test_a_topic_that_wants_it_often_gets_it_less_and_less_often():
    every_second = tuple(range(0, HOUR_MS, 1000))
    found = finished_at(FakeLog(), topics(True, 1), HOUR_MS, every_second)
    gaps = [(after - before) // 1000 for before, after in zip([0, *found], found, strict=False)]
    assert gaps[:8] == [10, 20, 30, 50, 90, 170, 330, 650]
    assert set(gaps[8:]) == {650}
