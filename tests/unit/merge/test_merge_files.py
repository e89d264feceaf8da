from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from merge_house import EAGER, House, OsDisk, post, run_job

from mainstem.kernel.log.entries import LinkEntry
from mainstem.kernel.log.jobs import Failed, Input, MergeJob, SealJob
from mainstem.kernel.log.layout import FileKind, places_name, run_name
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.plan import UpkeepOptions
from mainstem.kernel.log.seal import seal_file, seal_table
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.upkeep import Upkeep
from mainstem.model.errors import BodyGone


@pytest.fixture
def house(tmp_path):
    return House(str(tmp_path / "data"))


def files_in(house: House) -> set[str]:
    return set(os.listdir(f"{house.folder}/files"))


def test_a_finished_file_gets_a_sidecar_that_replaces_its_table(house):
    for at in range(40):
        house.append(at % 4)
    house.roll()
    assert isinstance(house.log.sealed[0], PlaceTable)
    assert isinstance(house.plan(), SealJob)
    house.work()
    assert all(isinstance(places, Sidecar) for places in house.log.sealed)
    house.check()


def test_nothing_is_merged_before_two_snapshots_lie_behind_it(house):
    house.append(1)
    house.roll()
    house.snapshot()
    house.work()
    assert not house.log.files.manifest.runs
    house.snapshot()
    house.work()
    assert house.log.files.manifest.runs


def test_merged_batches_of_a_partition_lie_back_to_back(house):
    for at in range(60):
        house.append(at % 3)
    house.settle()
    house.work()
    places = house.log.places(1, 0, 1 << 20, 1000, wait=True)
    assert len(places) == 20
    assert all(a.position + a.size == b.position for a, b in pairwise(places))
    house.check()


def test_inputs_are_gone_after_a_merge_and_a_restart_reads_the_same(house):
    for at in range(100):
        house.append(at % 7, count=1 + at % 3)
        if at % 10 == 0:
            house.atomic(at % 7)
    house.settle()
    house.work()
    manifest = house.log.files.manifest
    assert {run.level for run in manifest.runs} == {1}
    named = {f"{run.file_id:010d}.run" for run in manifest.runs}
    assert {name for name in files_in(house) if name.endswith(".run")} == named
    assert not manifest.retired
    house.check()
    house.reopen()
    house.check()
    assert house.log.warnings == []


def test_levels_fill_up_and_are_merged_into_the_next(house):
    for _ in range(10):
        for at in range(20):
            house.append(at % 5)
        house.settle()
        house.work()
    levels = [run.level for run in house.log.files.manifest.runs]
    assert max(levels) >= 2
    assert levels == sorted(levels, reverse=True)
    assert len(levels) < 6
    house.check()
    house.reopen()
    house.check()


def test_what_lies_below_the_floor_or_belongs_to_a_deleted_partition_is_left_out(house):
    for at in range(40):
        house.append(at % 2, size=100)
    house.settle()
    house.trim(0, 15)
    house.trim(1, None)
    house.work()
    house.check()
    assert house.log.size_bytes(1) == 0
    assert all(place.last >= 15 for place in house.log.places(0, 0, 1 << 20, 1000, wait=True))


def test_a_file_with_nothing_alive_is_dropped_without_a_run(house):
    house.append(1)
    house.settle()
    house.trim(1, None)
    house.trim(999, None)
    house.work()
    assert house.log.files.manifest.runs == ()
    assert not [name for name in files_in(house) if name.endswith(".run")]


def test_a_mostly_dead_run_is_rewritten_to_give_its_space_back(house):
    for at in range(40):
        house.append(at % 2, size=200)
    house.settle()
    house.trim(999, None)
    house.work()
    before = sum(run.size for run in house.log.files.manifest.runs)
    house.trim(0, 19)
    house.trim(1, 19)
    house.work()
    assert sum(run.size for run in house.log.files.manifest.runs) < before / 4
    house.check()


def test_links_of_one_frame_share_their_body_before_and_after_merges(house):
    house.fan_out(list(range(10, 40)), count=3)
    house.settle()
    house.work()
    house.check()
    (run,) = house.log.files.manifest.runs
    assert run.body_bytes > 0
    house.reopen()
    house.check()


def test_a_link_from_outside_finds_its_body_after_the_body_moved_twice(house):
    body = house.append(1, count=4)
    house.settle()
    house.link(2, body, first=1, count=2, overlay=(("why", b"retry"),))
    house.work()  # the body moves, the link stays in the active file
    house.check()
    for at in range(4):
        house.append(at + 50)
        house.settle()
        house.work()
        house.check()
    house.reopen()
    house.check()


def test_a_body_outlives_its_own_place_while_a_link_names_it(house):
    body = house.append(1, count=4)
    house.settle()
    house.link(2, body, first=1, count=2)
    house.trim(1, None)
    house.work()
    house.check()
    house.settle()
    house.work()
    house.check()
    house.trim(2, None)
    house.trim(999, None)
    house.settle()
    house.trim(999, house.ends[999])
    house.work()
    assert sum(run.body_bytes for run in house.log.files.manifest.runs) == 0


def test_a_body_that_only_state_names_is_kept_and_can_be_linked_later(house):
    body = house.append(1, count=2)
    house.facts.held.add(body)
    house.settle()
    house.trim(1, None)
    house.work()
    house.link(3, body, first=0, count=2)
    house.facts.held.clear()
    house.check()
    house.settle()
    house.work()
    house.check()


def test_a_link_written_while_its_body_is_being_merged_keeps_the_old_file_until_the_next_merge(house):
    body = house.append(1, count=2)
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    house.link(2, body, first=0, count=2)
    house.runner.work()
    assert [entry.file_id for entry in house.log.files.manifest.retired] == [body[0]]
    house.check()
    house.reopen()
    house.check()
    house.settle()
    house.work()
    assert house.log.files.manifest.retired == ()
    house.check()
    house.reopen()
    house.check()


def test_a_link_to_an_address_that_is_no_more_is_refused(house):
    body = house.append(1)
    house.settle()
    house.work()
    entry_link = house._link(2, body, house.model[1][0], 0, 1, ())
    with pytest.raises(BodyGone):
        house.log.append_atomic([LinkEntry(2, entry_link)], None)


def test_a_lost_sidecar_of_a_run_is_made_again_with_everything_in_it(house):
    body = house.append(1, count=4)
    house.fan_out([10, 11, 12])
    house.settle()
    house.link(2, body, first=1, count=2)
    house.work()
    (run,) = house.log.files.manifest.runs
    path = f"{house.folder}/{places_name(run.file_id)}"
    with open(path, "rb") as file:
        before = file.read()
    os.unlink(path)
    house.reopen()
    house.check()
    assert isinstance(house.plan(), SealJob)
    house.work(1)
    with open(path, "rb") as file:
        assert file.read() == before
    house.check()


def test_a_run_is_split_when_it_is_large(tmp_path):
    options = UpkeepOptions(level0_files=2, merge_after_ms=0, fan_in=3, run_bytes=8000, sealed_here_rows=0)
    house = House(str(tmp_path), options)
    for at in range(100):
        house.append(at % 5, size=200)
    house.fan_out([2, 3, 4])
    house.settle()
    house.work()
    assert len(house.log.files.manifest.runs) > 1
    house.check()
    house.reopen()
    house.check()


def test_a_damaged_input_stops_the_merge_and_leaves_the_files_in_use(house):
    body = house.append(1, size=500)
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    with open(f"{house.folder}/files/{body[0]:010d}.journal", "r+b") as file:
        file.seek(body[1] + 200)
        file.write(b"\xff\xff")
    before = files_in(house)
    house.runner.work()
    outcome = house.runner.outcomes[-1]
    assert isinstance(outcome, Failed)
    assert outcome.corrupt
    assert f"{body[0]:010d}.journal" in outcome.error
    assert files_in(house) == before
    assert house.plan() is None  # not again at once


def test_a_crash_before_the_manifest_names_the_run_leaves_the_old_files(house):
    for at in range(20):
        house.append(at % 3)
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    job, _ = house.runner.jobs.popleft()
    outcome = run_job(OsDisk(), job, lambda count: None)
    assert f"{outcome.runs[0].file_id:010d}.run" in files_in(house)
    house.reopen()
    assert not [name for name in files_in(house) if name.endswith(".run")]
    house.check()
    house.work()
    house.check()


def test_a_crash_after_the_manifest_and_before_the_old_files_are_deleted_leaves_the_new_ones(
    house, monkeypatch
):
    for at in range(20):
        house.append(at % 3)
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    monkeypatch.setattr(house.upkeep, "_swap", lambda *_: None)
    house.runner.work()
    assert house.log.files.manifest.retired
    house.reopen()
    assert not house.log.files.manifest.retired
    assert not [name for name in files_in(house) if name.endswith(".journal") and "0000000001" in name]
    house.check()


def test_time_look_up_after_a_merge_ignores_what_was_trimmed(house):
    house.append(5, count=50)  # reaches timestamp 1049
    house.append(5, count=2)
    house.settle()
    house.trim(5, 50)
    house.work()
    assert house.log.first_at_or_after(5, 1040) is None
    assert house.log.first_at_or_after(5, 1001).base == 50


def test_floors_count_only_once_they_are_on_disk(house):
    house.append(1)
    house.settle()
    house.log.append_delta(1, b"trim", None)
    house.trim(1, 1)
    house.work()
    assert not house.log.files.manifest.runs
    assert house.upkeep.busy
    house.log.run_pending()
    house.work()
    assert house.log.files.manifest.runs
    assert house.log.size_bytes(1) == 0


def test_without_space_only_what_is_dead_is_merged(house, monkeypatch):
    house.append(1)
    house.settle()
    monkeypatch.setattr(house.log.files.disk, "free_bytes", lambda path: 0)
    house.work()
    assert not house.log.files.manifest.runs
    house.trim(1, None)
    house.trim(999, None)
    house.now_ms += EAGER.no_space_wait_ms
    house.work()
    assert all(entry.size == 0 for entry in house.log.files.manifest.journals if entry.file_id < 2)


def test_meters_tell_write_amplification_and_files_per_level(house):
    for at in range(50):
        house.append(at % 3)
    house.settle()
    house.work()
    found = {family.name: family for family in house.meters}
    assert 1.5 < found["mainstem_write_amplification"].at().now() <= 2.0
    assert found["mainstem_upkeep_jobs"].at("merge").value >= 1
    assert found["mainstem_log_files"].at("1").value == len(house.log.files.manifest.runs)


def test_files_are_merged_in_the_names_of_kinds(house):
    house.append(1)
    house.settle()
    house.work()
    (run,) = house.log.files.manifest.runs
    with open(f"{house.folder}/{run_name(run.file_id)}", "rb") as file:
        assert file.read(12)[10:12] == FileKind.RUN.to_bytes(2, "big")


@pytest.mark.parametrize(("quiet_bytes_per_s", "merged"), [(0, False), (1 << 40, True)])
def test_while_much_is_written_only_a_full_level_0_is_merged(tmp_path, quiet_bytes_per_s, merged):
    options = UpkeepOptions(
        level0_files=100, merge_after_ms=0, quiet_bytes_per_s=quiet_bytes_per_s, sealed_here_rows=0
    )
    house = House(str(tmp_path), options)
    for at in range(100):
        house.append(at % 5, size=200)
    house.settle()
    house.work()
    assert bool(house.log.files.manifest.runs) is merged
    house.upkeep = Upkeep(
        house.log, house.facts, house.runner, post, replace(options, level0_files=2), house.meters
    )
    house.work()
    assert house.log.files.manifest.runs
    house.check()


def test_a_merge_rests_while_much_is_written_unless_files_pile_up(tmp_path):
    options = UpkeepOptions(level0_files=40, merge_after_ms=0, quiet_bytes_per_s=1000, sealed_here_rows=0)
    house = House(str(tmp_path), options)
    for at in range(30):
        house.append(at % 5, size=200)
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    second = 0

    def tick() -> bool:
        nonlocal second
        second += 1
        house.upkeep.tick(house.now_ms + second * 1000)
        return house.runner.held

    assert not tick()
    for at in range(30):
        house.append(at % 5, size=200)
    assert tick()
    assert not tick()  # a second without a byte
    house.log.bytes_sent += 100_000
    assert tick()  # what is read counts too
    assert not tick()
    while sum(1 for entry in house.log.files.manifest.journals if entry.size) < 40:
        house.append(1, size=2000)
    assert not tick()
    house.runner.work()
    house.check()


def test_the_index_that_the_writer_kept_makes_the_same_sidecar_as_the_file(house):
    for at in range(40):
        house.append(at % 5, size=200)
    house.fan_out([2, 3, 4])
    house.settle()
    for places in house.log.sealed:
        assert isinstance(places, PlaceTable)
        path = f"{house.folder}/{places_name(places.file_id)}"
        (entry,) = [e for e in house.log.files.manifest.journals if e.file_id == places.file_id]
        seal_table(house.disk, house.folder, places, entry.size)
        from_table = Path(path).read_bytes()
        job = SealJob(house.folder, Input(entry.file_id, FileKind.JOURNAL, entry.size))
        seal_file(house.disk, job, lambda count: None)
        assert Path(path).read_bytes() == from_table


def test_short_indexes_are_sealed_without_the_child(tmp_path):
    house = House(str(tmp_path), UpkeepOptions(merge_after_ms=1 << 60))
    for at in range(100):
        house.append(at % 5, size=200)
    house.settle()
    for _ in range(200):
        house.upkeep.tick(house.now_ms)
    assert not house.runner.jobs
    assert all(isinstance(places, Sidecar) for places in house.log.sealed)
    house.check()


def test_while_much_is_written_files_are_merged_before_they_fill_the_disk(tmp_path, monkeypatch):
    options = UpkeepOptions(level0_files=100, merge_after_ms=1 << 60, quiet_bytes_per_s=0, sealed_here_rows=0)
    house = House(str(tmp_path), options)
    for at in range(100):
        house.append(at % 5, size=200)
    house.settle()
    house.work()
    assert not house.log.files.manifest.runs
    waiting = sum(entry.size for entry in house.log.files.manifest.journals)
    monkeypatch.setattr(house.disk, "free_bytes", lambda folder: 2 * waiting - 1)
    house.work()
    assert house.log.files.manifest.runs
    house.check()
