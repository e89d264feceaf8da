"""Whatever is appended, linked, trimmed, rolled and merged, readers get the same bytes."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "merge"))

from merge_house import House

from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.model.errors import BodyGone, CorruptFile
from mainstem.model.ports import Disk
from mainstem.testing.memory_disk import MemoryDisk

PARTITIONS = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("append"), PARTITIONS, st.integers(1, 5)),
    st.tuples(st.just("atomic"), PARTITIONS),
    st.tuples(st.just("fan_out"), st.lists(PARTITIONS, min_size=1, max_size=4, unique=True)),
    st.tuples(st.just("link"), PARTITIONS, st.integers(0, 50), st.booleans()),
    st.tuples(st.just("relink"), PARTITIONS, st.integers(0, 50)),
    st.tuples(st.just("trim"), PARTITIONS, st.floats(0, 1)),
    st.tuples(st.just("delete"), PARTITIONS),
    st.tuples(st.just("settle")),
    st.tuples(st.just("settle_and_work")),
    st.tuples(st.just("plan")),
    st.tuples(st.just("work"), st.integers(1, 4)),
    st.tuples(st.just("reopen")),
)
OPTIONS = [
    UpkeepOptions(level0_files=2, merge_after_ms=0, fan_in=2, survey_every_ms=0, dead_ratio=0.2),
    UpkeepOptions(level0_files=6, merge_after_ms=10**9, fan_in=3, survey_every_ms=0, run_bytes=1500),
]


class Walk:
    def __init__(self, folder: str, options: UpkeepOptions, disk: Disk | None = None) -> None:
        self.house = House(folder, options, disk=disk)
        self.bodies: list[tuple[tuple[int, int], int]] = []
        self.deleted: set[int] = set()

    def step(self, name: str, *arguments: object) -> None:
        getattr(self, f"do_{name}")(*arguments)

    def do_append(self, partition: int, count: int) -> None:
        if partition not in self.deleted:
            self.bodies.append((self.house.append(partition, count), count))

    def do_atomic(self, partition: int) -> None:
        if partition not in self.deleted:
            self.house.atomic(partition)

    def do_fan_out(self, partitions: list[int]) -> None:
        alive = [partition for partition in partitions if partition not in self.deleted]
        if alive:
            self.house.fan_out(alive)

    def do_link(self, partition: int, which: int, whole: bool) -> None:
        """To the body of a live place, by the address that the index names now."""
        home = 1 + which % 4
        floor = self.house.facts.floors.get(home) or 0
        places = [p for p in self.house.log.places(home, floor, 1 << 20, 1 << 40, wait=True) if not p.link]
        if partition in self.deleted or home in self.deleted or not places:
            return
        place = places[which % len(places)]
        count = place.last - place.base + 1
        first, records = (0, count) if whole else (count // 2, 1)
        overlay = () if which % 3 else (("hop", b"1"),)
        self.house.link(partition, (place.file_id, place.position), first, records, overlay)

    def do_relink(self, partition: int, which: int) -> None:
        """By an address that was noted long ago: it is good, or refused, and never something else."""
        if partition in self.deleted or not self.bodies:
            return
        body, count = self.bodies[which % len(self.bodies)]
        with contextlib.suppress(BodyGone, CorruptFile):
            self.house.link(partition, body, 0, count)

    def do_trim(self, partition: int, share: float) -> None:
        if partition not in self.deleted:
            old = self.house.facts.floors.get(partition) or 0
            self.house.trim(partition, max(old, int(self.house.ends.get(partition, 0) * share)))

    def do_delete(self, partition: int) -> None:
        if len(self.deleted) < 2:
            self.deleted.add(partition)
            self.house.trim(partition, None)

    def do_settle(self) -> None:
        self.house.settle()

    def do_settle_and_work(self) -> None:
        self.house.settle()
        self.house.work()

    def do_plan(self) -> None:
        self.house.plan()

    def do_work(self, jobs: int) -> None:
        self.house.work(jobs)

    def do_reopen(self) -> None:
        self.house.reopen()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=5, max_size=40), options=st.sampled_from(OPTIONS))
def test_readers_get_the_same_bytes_whatever_is_merged(steps, options):
    walk = Walk("/data", options, MemoryDisk("/data"))
    for step in steps:
        walk.step(*step)
        walk.house.check()
    walk.house.settle()
    walk.house.work()
    walk.house.check()
    walk.house.reopen()
    walk.house.check()
    assert not walk.house.upkeep.busy
