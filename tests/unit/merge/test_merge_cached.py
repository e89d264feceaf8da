"""What was in memory is there after a merge, and what was not is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from merge_house import LOG_OPTIONS, House

from mainstem.kernel.log.places import WouldBlock
from mainstem.model.batch import read_header
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
    run = house.log.files.manifest.runs[0]
    while house.log.reader.file(run.file_id).is_cached(4096, run.size - 8192):
        house.append(6, size=LARGE)
        house.log.chunks(6, house.ends[6] - 1, 1, house.ends[6])
    with pytest.raises(WouldBlock):  # it is not believed either
        house.log.chunks(PARTITION, 0, 1 << 30, house.ends[PARTITION])
    assert house.read(PARTITION) == house.model[PARTITION]


def test_a_run_of_files_that_may_not_stay_in_memory_leaves_it(tmp_path):
    house = house_with(tmp_path, cached_bytes=0)
    merge_some(house)
    assert in_memory(house) == {False}
    house.check()


def test_a_run_of_what_nobody_read_leaves_memory(tmp_path):
    house = house_with(tmp_path, cached_bytes=4 << 20)
    for _ in range(40):
        house.append(PARTITION, size=LARGE)
    house.settle()
    house.work()
    assert in_memory(house) == {False}
    assert [read_header(batch).base_offset for batch in house.read(PARTITION)] == list(range(40))
