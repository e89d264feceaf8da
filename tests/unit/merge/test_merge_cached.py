"""What was in memory is there after a merge, and what was not is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from merge_house import LOG_OPTIONS, House

from mainstem.kernel.log.jobs import MergeJob
from mainstem.kernel.log.places import WouldBlock
from mainstem.model.slices import FileSlice

PARTITION = 5
LARGE = 200 << 10  # a batch that is sent from its file


def house_with(folder, cached_bytes: int) -> House:
    options = replace(LOG_OPTIONS, file_bytes=1 << 20, cached_bytes=cached_bytes)
    return House(str(folder), log_options=options)


def merge_some(house: House) -> None:
    for _ in range(6):
        house.append(PARTITION, size=LARGE)
    house.settle()
    house.read(PARTITION)  # somebody is interested
    house.work()
    assert house.log.files.manifest.runs


def in_memory(house: House) -> set[bool]:
    """What is true of the runs: of each, that all of it is there, or not."""
    runs = house.log.files.manifest.runs
    return {house.log.reader.file(run.file_id).is_cached(run.size, 0) for run in runs}


def test_a_run_is_in_memory_if_its_files_were_and_is_sent_without_a_wait_for_the_disk(tmp_path):
    house = house_with(tmp_path, cached_bytes=64 << 20)
    merge_some(house)
    assert in_memory(house) == {True}
    checked, _ = house.log.chunks(PARTITION, 0, 1 << 30, house.ends[PARTITION])
    assert not any(isinstance(chunk, FileSlice) for chunk in checked)  # another process wrote it
    sent, end = house.log.chunks(PARTITION, 0, 1 << 30, house.ends[PARTITION])
    assert all(isinstance(chunk, FileSlice) for chunk in sent)
    assert end == house.ends[PARTITION]
    house.check()


def test_a_run_stays_in_memory_when_it_is_merged_again(tmp_path):
    house = house_with(tmp_path, cached_bytes=64 << 20)
    while not any(run.level == 2 for run in house.log.files.manifest.runs):
        merge_some(house)
    assert in_memory(house) == {True}


def test_a_run_leaves_memory_as_its_files_would_have(tmp_path):
    house = house_with(tmp_path, cached_bytes=4 << 20)
    merge_some(house)
    assert in_memory(house) == {True}
    house.log.chunks(PARTITION, 0, 1 << 30, house.ends[PARTITION])
    for _ in range(60):
        house.append(6, size=LARGE)
        house.log.chunks(6, house.ends[6] - 1, 1, house.ends[6])
    for run in house.log.files.manifest.runs:
        file = house.log.reader.file(run.file_id)
        assert not any(file.is_cached(1, at) for at in range(0, run.size, 4096))
    with pytest.raises(WouldBlock):  # it is not believed either
        house.log.chunks(PARTITION, 0, 1 << 30, house.ends[PARTITION])
    assert house.read(PARTITION) == house.model[PARTITION]


def test_a_run_of_files_that_may_not_stay_in_memory_leaves_it(tmp_path):
    house = house_with(tmp_path, cached_bytes=0)
    merge_some(house)
    assert in_memory(house) == {False}
    house.check()


@pytest.mark.parametrize("read", [False, True])
def test_a_run_of_what_nobody_read_leaves_memory(tmp_path, read):
    house = house_with(tmp_path, cached_bytes=64 << 20)
    house.log.cached.written(64 << 20, 0)  # as much as may stay, and nothing has left
    for _ in range(12):
        house.append(PARTITION, size=LARGE)
    house.settle()
    if read:
        house.read(PARTITION)
    house.work()
    assert in_memory(house) == {read}
    house.check()


def test_a_file_that_a_link_still_names_counts_as_in_memory_until_it_is_dropped(tmp_path):
    house = house_with(tmp_path, cached_bytes=64 << 20)
    body = house.append(PARTITION, size=LARGE)
    house.settle()
    house.read(PARTITION)
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    house.link(6, body)  # while it is being merged
    house.runner.work()
    assert house.log.retired
    assert house.log.cached.keeps({body[0]})
    house.settle()
    house.work()
    assert not house.log.retired
    assert not house.log.cached.keeps({body[0]})
    assert house.log.cached.keeps({run.file_id for run in house.log.files.manifest.runs})
    house.check()
