"""A merge of which most is deleted while it goes on, or rests, is given up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from merge_house import EAGER, House

from mainstem.kernel.log.jobs import Failed, MergeJob
from mainstem.kernel.log.layout import FileKind
from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.survey import partitions_of


@pytest.fixture
def house(tmp_path):
    return House(str(tmp_path / "data"))


def until_merge(house: House, kind: FileKind = FileKind.JOURNAL) -> MergeJob:
    """Do everything up to a merge of such files, which is left under way."""
    while True:
        job = house.plan()
        if isinstance(job, MergeJob) and job.inputs[0].kind == kind:
            return job
        assert job is not None
        house.runner.work()


def start_merge(house: House) -> MergeJob:
    """Of much in partition 1 and little in 2; 999 filled the file up."""
    for _ in range(8):
        house.append(1, size=1000)
    house.append(2)
    house.settle()
    return until_merge(house)


def delete_most(house: House) -> None:
    house.trim(1, None)
    house.trim(999, None)


def watch(house: House, seconds: int) -> None:
    for _ in range(seconds):
        house.now_ms += 1000
        house.plan()


def files_of(house: House, job: MergeJob) -> list[str]:
    """What lies there of a merge's outputs."""
    made = tuple(f"{file_id:010d}." for file_id in job.output_ids)
    return [name for name in os.listdir(f"{house.folder}/files") if name.startswith(made)]


def failures(house: House) -> float:
    return house.meters.counter("mainstem_upkeep_failures", "Background work that failed").at().value


def test_a_merge_of_which_most_is_deleted_meanwhile_is_given_up_and_what_is_left_is_merged(house):
    given_up = start_merge(house)
    house.trim(1, 4)
    house.trim(999, None)
    watch(house, 5)
    assert not house.runner.abandoned, "it was nearly all deleted, but that of 1 was not"
    house.trim(1, None)
    watch(house, 5)
    assert house.runner.abandoned == 1
    house.runner.die()
    assert files_of(house, given_up) == []
    assert house.plan()
    assert failures(house) == 0
    ((again, _),) = house.runner.jobs
    assert isinstance(again, MergeJob)
    assert again.inputs == given_up.inputs
    house.trim(2, None)
    watch(house, 5)
    assert house.runner.abandoned == 1, "not twice in a row"
    house.work()
    assert house.runner.abandoned == 1
    house.check()
    house.reopen()
    house.check()


def test_a_merge_that_was_given_up_is_let_be_also_if_another_comes_in_between(tmp_path):
    house = House(str(tmp_path), replace(EAGER, sealed_here_rows=1000))
    house.append(7)
    house.settle()
    house.append(7)
    house.settle()
    house.work()
    for partition, count in ((1, 11), (2, 5)):
        for _ in range(count):
            house.append(partition, size=1000)
    house.settle()
    job = until_merge(house)
    house.trim(7, None)
    delete_most(house)
    watch(house, 5)
    assert house.runner.abandoned == 1
    house.now_ms += house.options.survey_every_ms
    house.runner.die()
    dropped = house.plan()
    assert isinstance(dropped, MergeJob)
    assert dropped.inputs[0].kind == FileKind.RUN
    house.runner.work()
    assert until_merge(house).inputs == job.inputs
    house.trim(2, None)
    watch(house, 5)
    assert house.runner.abandoned == 1
    house.work()
    assert house.log.files.manifest.runs == ()


@pytest.mark.parametrize("damage", [False, True])
def test_a_merge_that_ends_while_it_is_given_up_counts_as_it_ended(house, damage):
    start_merge(house)
    delete_most(house)
    watch(house, 5)
    assert house.runner.abandoned == 1
    if damage:
        _, on_done = house.runner.jobs.popleft()
        on_done(Failed("a file is damaged", corrupt=True))
    else:
        house.runner.work()
        assert house.log.files.manifest.runs
    assert failures(house) == damage
    house.check()


def test_a_merge_that_was_nearly_all_dead_from_the_start_is_not_given_up(house):
    for _ in range(8):
        house.append(1, size=1000)
    house.append(2)
    house.settle()
    delete_most(house)
    until_merge(house)
    watch(house, 10)
    assert not house.runner.abandoned
    house.work()
    house.check()


@pytest.mark.parametrize("kind", [FileKind.JOURNAL, FileKind.RUN])
def test_bodies_that_only_links_name_count_as_alive(house, kind):
    for _ in range(3 if kind == FileKind.RUN else 1):
        for _ in range(10):
            house.append(1, size=1000)
        for _ in range(10):
            house.fan_out([10, 11], count=30)
        house.settle()
        if kind == FileKind.RUN:
            until_merge(house)
            house.runner.work()
    job = until_merge(house, kind)
    delete_most(house)
    watch(house, 5)
    assert not house.runner.can_abandon, "nobody asked for it"
    house.runner.work()
    assert house.runner.outcomes[-1].written_bytes > sum(entry.size for entry in job.inputs) / 4
    house.check()


def test_what_is_deleted_while_a_merge_asks_for_floors_counts_as_deleted_meanwhile(house, monkeypatch):
    def floor(partition: int) -> int | None:
        found = house.facts.floors.get(partition, 0)
        if partition == 999:  # the last one to be asked for
            delete_most(house)
        return found

    monkeypatch.setattr(house.facts, "floor", floor)
    assert set(start_merge(house).floors.values()) == {0}
    watch(house, 5)
    assert house.runner.abandoned == 1


def test_looking_at_a_merge_takes_a_few_slices_a_tick_from_the_first_on_whatever_the_clock_says(
    tmp_path, monkeypatch
):
    house = House(str(tmp_path), replace(EAGER, slice_steps=1))
    asked: list[int] = []

    def floor(partition: int) -> int | None:
        asked.append(partition)
        return house.facts.floors.get(partition, 0)

    monkeypatch.setattr(house.facts, "floor", floor)
    for partition in range(10, 60):
        house.append(partition, size=100)
    job = start_merge(house)
    assert sorted(asked) == sorted(job.floors), "what the merge needs to know, and nothing twice"
    delete_most(house)
    for partition in range(10, 60):
        house.trim(partition, None)
    for jump_ms in (0, 3_600_000, -4_000_000, *[0] * 20):
        asked.clear()
        house.now_ms += jump_ms
        house.plan()
        assert len(asked) <= 16
    assert house.runner.abandoned == 1


def test_the_partitions_of_a_merge_are_gathered_in_slices(house):
    for partition in (14, 11, 13, 12, 10):
        house.append(partition, size=100)
    job = start_merge(house)
    inputs = {entry.file_id for entry in job.inputs}
    sidecars = [p for p in house.log.sealed if isinstance(p, Sidecar) and p.file_id in inputs]
    found: list[int] = []

    def gather() -> Iterator[None]:
        found.extend((yield from partitions_of(sidecars, 1)))

    slices = sum(1 for _ in gather())
    assert found == sorted(job.floors)
    assert slices == sum(len(sidecar.partitions()) for sidecar in sidecars) >= 5


def test_a_merge_is_given_up_also_while_something_else_that_failed_has_to_wait(tmp_path, monkeypatch):
    def no_space(*args: object) -> None:
        raise OSError(28, "No space left on device")

    house = House(str(tmp_path), UpkeepOptions(level0_files=2))
    for _ in range(8):
        house.append(1, size=1000)
    house.settle()
    house.settle()
    while not house.runner.jobs:
        house.plan()
    monkeypatch.setattr("mainstem.kernel.log.upkeep.seal_table", no_space)
    house.roll()
    house.plan()
    assert failures(house) == 1
    delete_most(house)
    for _ in range(5):
        house.plan()
    assert failures(house) == 1, "it still waits"
    assert house.runner.abandoned == 1


@pytest.mark.parametrize("given_up", [True, False])
def test_what_a_merge_leaves_is_deleted_at_once_also_while_files_are_being_copied(house, given_up):
    job = start_merge(house)
    if given_up:
        delete_most(house)
        watch(house, 5)
    assert house.runner.abandoned == given_up
    with house.log.files.pinned():
        house.runner.die()
        assert files_of(house, job) == []
    assert failures(house) == (not given_up)
