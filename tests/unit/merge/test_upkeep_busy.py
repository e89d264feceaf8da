"""Upkeep while clients never pause: what is deleted, expired or replaced leaves the disk nevertheless."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from merge_house import House

from mainstem.kernel.log.facts import CompactPolicy
from mainstem.kernel.log.jobs import Failed, MergeJob, SealJob
from mainstem.kernel.log.layout import FileKind
from mainstem.kernel.log.manifest import RunEntry
from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.testing.memory_disk import MemoryDisk

# No moment is quiet.
BUSY = UpkeepOptions(level0_files=2, merge_after_ms=0, quiet_bytes_per_s=0)


def busy_house(tmp_path: Path, merges: int = 1) -> House:
    """One that has merged so much of level 0, with partitions 1 and 999 in each."""
    house = House(str(tmp_path), BUSY)
    for _ in range(merges):
        write_level0(house)
        house.work()
    assert len({run.group for run in runs(house)}) >= merges
    return house


def write_level0(house: House) -> None:
    for _ in range(BUSY.level0_files):
        house.append(1)
        house.settle()


def runs(house: House) -> tuple[RunEntry, ...]:
    return house.log.files.manifest.runs


def wait(house: House, ms: int) -> None:
    house.now_ms += ms
    house.work()


def test_what_is_wholly_dead_is_dropped_however_much_is_written(tmp_path):
    house = busy_house(tmp_path, merges=2)
    house.trim(1, None)
    house.trim(999, None)
    house.now_ms += BUSY.survey_every_ms
    assert isinstance(house.plan(), MergeJob)
    house.now_ms += 1000
    house.plan()
    assert not house.runner.held
    house.work()
    assert runs(house) == ()
    assert not [name for name in os.listdir(f"{house.folder}/files") if name.endswith(".run")]


def test_what_is_wholly_dead_goes_before_journal_files_that_wait(tmp_path):
    house = busy_house(tmp_path, merges=3)
    house.trim(1, None)
    house.trim(999, None)
    write_level0(house)
    house.now_ms += BUSY.survey_every_ms
    inputs = []
    while (job := house.plan()) is not None:
        assert isinstance(job, MergeJob)
        inputs.append(job.inputs[0].kind)
        house.runner.work()
    assert inputs == [FileKind.RUN] * 3 + [FileKind.JOURNAL]


def test_a_mostly_dead_group_is_put_off_while_much_is_written_but_not_for_ever(tmp_path):
    house = busy_house(tmp_path)
    before = runs(house)
    house.trim(999, None)
    wait(house, BUSY.survey_every_ms)
    wait(house, BUSY.max_put_off_ms - 10)
    assert runs(house) == before
    house.now_ms += 10
    assert isinstance(house.plan(), MergeJob)
    house.now_ms += 1000
    house.plan()
    assert not house.runner.held
    house.work()
    assert sum(run.size for run in runs(house)) < sum(run.size for run in before) / 4
    house.check()


def test_compacted_topics_are_compacted_though_much_is_written(tmp_path):
    house = House(str(tmp_path), BUSY)
    house.facts.policies[1] = CompactPolicy()
    for _ in range(2):
        write_level0(house)
        house.work()
    assert [run.level for run in runs(house) if run.keyed] == [1, 1]
    wait(house, BUSY.survey_every_ms)
    assert [run.level for run in runs(house) if run.keyed] == [1, 1]
    wait(house, BUSY.max_put_off_ms)
    assert [run.level for run in runs(house) if run.keyed] == [2]
    house.check()


def test_merges_that_are_late_and_those_of_level_0_take_turns(tmp_path):
    house = busy_house(tmp_path, merges=3)
    house.trim(999, None)
    wait(house, BUSY.survey_every_ms)
    for _ in range(3):
        write_level0(house)
    house.now_ms += BUSY.max_put_off_ms
    kinds = []
    while (job := house.plan()) is not None:
        assert isinstance(job, MergeJob)
        kinds.append(job.inputs[0].kind)
        house.runner.work()
    assert kinds == [FileKind.RUN, FileKind.JOURNAL] * 3
    assert house.read(1) == house.model[1]


def test_a_merge_that_was_begun_in_a_quiet_moment_rests_for_so_long_in_all(tmp_path):
    house = House(str(tmp_path), replace(BUSY, level0_files=40, quiet_bytes_per_s=1000))
    house.append(1)
    house.settle()
    assert isinstance(house.plan(), MergeJob)

    def second(sent_bytes: int) -> bool:
        house.log.bytes_sent += sent_bytes
        house.now_ms += 1000
        house.upkeep.tick(house.now_ms)
        return house.runner.held

    seconds = BUSY.max_put_off_ms // 1000
    assert all(second(100_000) for _ in range(seconds - 100))
    assert not any(second(0) for _ in range(1000))
    assert all(second(100_000) for _ in range(100))
    assert not any(second(100_000) for _ in range(1000))
    house.runner.work()
    house.check()


def fail_those_of(house: House, files: set[int]) -> bool:
    """Does the next job, if there is one; merges of such files fail."""
    job = house.plan()
    if job is None:
        return False
    if isinstance(job, MergeJob) and files & {entry.file_id for entry in job.inputs}:
        _, on_done = house.runner.jobs.popleft()
        on_done(Failed("OSError: [Errno 5] Input/output error"))
    else:
        house.runner.work()
    return True


def test_dead_groups_that_cannot_be_dropped_keep_no_other_merge_waiting(tmp_path):
    house = busy_house(tmp_path, merges=2)
    dead = {run.file_id for run in runs(house)}
    house.trim(1, None)

    def seconds(count: int) -> None:
        for _ in range(count):
            house.now_ms += 1000
            fail_those_of(house, dead)

    house.trim(999, None)
    seconds(600)
    for _ in range(BUSY.level0_files):
        house.append(2)
        house.settle()
    house.trim(999, house.ends[999])
    seconds(120)
    merged = {run.file_id for run in runs(house)}
    assert dead < merged, "level 0 had its turn"
    # What dies later is dropped, though the others are found again with it.
    house.trim(2, None)
    seconds(120)
    assert {run.file_id for run in runs(house)} == dead
    dead.clear()
    seconds(120)
    assert runs(house) == ()


def test_a_full_disk_drops_what_needs_no_space_though_a_group_before_it_needs_some(tmp_path):
    disk = MemoryDisk("/data")
    house = House("/data", replace(BUSY, sealed_here_rows=1000), disk=disk)
    bodies = [house.append(1, size=2000) for _ in range(6)]
    house.settle()
    house.settle()
    for body in bodies:
        house.link(7, body)
    house.settle()
    house.settle()
    house.work()
    write_level0(house)
    house.work()
    needs_space, links, needs_none = sorted(run.file_id for run in runs(house))
    for partition in (1, 999):
        house.trim(partition, None)
    disk.space_bytes = (1 << 40) - disk.free_bytes("") + 3000
    house.roll()
    house.log.prepare()
    assert house.log.no_space
    tried = []
    for _ in range(60):
        house.now_ms += 1000
        job = house.plan()
        if isinstance(job, MergeJob):
            tried.append(job.inputs[0].file_id)
        if job is not None:
            house.runner.work()
    assert tried[:2] == [needs_space, needs_none]
    assert needs_space in tried[2:], "there is room by now"
    assert not {needs_space, needs_none} & {run.file_id for run in runs(house)}
    assert links in {run.file_id for run in runs(house)}
    assert house.read(7) == house.model[7]


def test_a_file_that_cannot_be_sealed_keeps_no_merge_waiting(tmp_path):
    house = House(str(tmp_path), UpkeepOptions(merge_after_ms=0, sealed_here_rows=0))
    house.append(1)
    house.settle()
    house.work()
    assert runs(house)
    house.trim(1, None)
    house.trim(999, None)
    house.roll()
    house.now_ms += BUSY.survey_every_ms
    for _ in range(120):
        house.now_ms += 1000
        job = house.plan()
        if isinstance(job, SealJob):
            _, on_done = house.runner.jobs.popleft()
            on_done(Failed("OSError: [Errno 5] Input/output error"))
        elif job is not None:
            house.runner.work()
    assert runs(house) == ()


def test_journal_files_wait_for_quiet_no_longer_than_other_merges(tmp_path):
    options = replace(BUSY, level0_files=40, merge_after_ms=60_000)
    house = House(str(tmp_path), options)
    house.append(1)
    house.settle()
    house.plan()
    house.now_ms += options.merge_after_ms + options.max_put_off_ms - 2
    assert house.plan() is None
    assert isinstance(house.plan(), MergeJob)
    house.now_ms += 1000
    house.plan()
    assert not house.runner.held
    house.work()
    assert runs(house)
    # The next file has its own time.
    house.append(1)
    house.settle()
    wait(house, options.merge_after_ms + options.max_put_off_ms // 2)
    assert len({run.group for run in runs(house)}) == 1
    house.check()


def resting_merge(tmp_path: Path) -> House:
    """One of a journal file, begun in a quiet moment, beside a group of the partitions 5 and 999."""
    house = House(str(tmp_path), replace(BUSY, level0_files=40, quiet_bytes_per_s=1000))
    house.append(5)
    house.settle()
    house.work()
    house.append(1)
    house.settle()
    job = house.plan()
    assert isinstance(job, MergeJob)
    assert job.inputs[0].kind == FileKind.JOURNAL
    for _ in range(3):
        assert busy_second(house)
    return house


def busy_second(house: House) -> bool:
    """Whether the merge rests."""
    house.log.bytes_sent += 100_000
    house.now_ms += 1000
    while house.upkeep.tick(house.now_ms):
        pass
    return house.runner.held


def test_a_merge_does_not_rest_in_front_of_a_group_to_drop(tmp_path):
    house = resting_merge(tmp_path)
    house.trim(5, None)
    house.trim(999, None)
    before = runs(house)
    seconds = BUSY.survey_every_ms // 1000
    rested = [busy_second(house) for _ in range(seconds + 2)]
    assert rested.index(False) >= 10, "it is found by a survey"
    assert not rested[-1]
    house.runner.work()
    house.plan()
    house.runner.work()
    assert not set(before) & set(runs(house))
    house.check()


def test_a_merge_does_not_rest_in_front_of_one_that_becomes_late_meanwhile(tmp_path):
    house = resting_merge(tmp_path)
    for _ in range(100):
        assert busy_second(house)
    house.trim(999, None)  # more than half of the group
    for _ in range(100):
        busy_second(house)
    house.log.bytes_sent = 0
    for _ in range(350):  # quiet ones do not count for how long it may rest
        house.now_ms += 1000
        house.plan()
    rested = [busy_second(house) for _ in range(300)]
    assert rested[0]
    assert not rested[-1]
    assert sum(rested) < 250
    house.runner.work()
    house.check()


def test_a_batch_that_stays_whole_for_one_record_is_not_rewritten_again_and_again(tmp_path):
    house = House(str(tmp_path), UpkeepOptions(merge_after_ms=0))
    house.append(1, 100)
    house.settle()
    house.work()
    house.trim(999, None)
    house.trim(1, 99)
    jobs = 0
    for _ in range(10):
        house.now_ms += BUSY.survey_every_ms
        jobs += house.work()
    assert jobs == 2, "the second shows that it is vain"
    house.trim(1, None)
    wait(house, BUSY.survey_every_ms)
    assert runs(house) == ()
