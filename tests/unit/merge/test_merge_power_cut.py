"""The power goes at every step of sealing, merging and dropping, and nothing is lost or read twice."""

from __future__ import annotations

from collections.abc import Iterator

from merge_house import EAGER, House

from mainstem.kernel.log.jobs import MergeJob
from mainstem.kernel.log.log import LogOptions
from mainstem.testing.memory_disk import MemoryDisk, Op

FOLDER = "/data"
OPTIONS = LogOptions(file_bytes=8 << 10, file_frames=1000, reserve_bytes=1 << 10)
FILLER = 999


def kept_after_a_cut(pending: list[Op]) -> Iterator[list[Op]]:
    yield []
    yield pending
    for index in range(len(pending)):
        yield pending[:index] + pending[index + 1 :]
        yield [pending[index]]


def test_a_power_cut_at_any_step_of_a_merge_leaves_the_old_files_or_the_new_ones():
    disk = MemoryDisk(FOLDER)
    house = House(FOLDER, EAGER, OPTIONS, disk)
    body = house.append(1, count=3)
    for at in range(12):
        house.append(at % 3)
    house.fan_out([4, 5])
    house.settle()
    house.link(2, body, first=1)
    points = [(len(disk.tape), _copy(house))]
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    body = (house.log.places(1, 3, 1, 100)[0].file_id, house.log.places(1, 3, 1, 100)[0].position)
    house.link(3, body)  # while the merge that takes its body away is on the way
    points.append((len(disk.tape), _copy(house)))
    house.runner.work()
    assert house.log.files.manifest.retired
    house.settle()
    house.work()
    assert not house.log.files.manifest.retired
    assert len(house.log.files.manifest.runs) >= 1
    states = 0
    replayed = MemoryDisk(FOLDER)
    for index, recorded in enumerate(disk.tape):
        replayed.play(recorded)
        known = [point for at, point in points if at <= index + 1]
        if not known:
            continue
        for kept in kept_after_a_cut(replayed.pending):
            states += 1
            _check(replayed.after_power_cut(kept), *known[-1], work=states % 7 == 0)
    assert states > 300


def _copy(house: House) -> tuple[dict[int, list[bytes]], dict[int, int]]:
    model = {partition: list(batches) for partition, batches in house.model.items() if partition != FILLER}
    return model, {partition: end for partition, end in house.ends.items() if partition != FILLER}


def _check(disk: MemoryDisk, model: dict[int, list[bytes]], ends: dict[int, int], work: bool) -> None:
    house = House(FOLDER, EAGER, OPTIONS, disk)
    house.model, house.ends = model, ends
    house.check()
    if work:
        house.work()
        house.check()
