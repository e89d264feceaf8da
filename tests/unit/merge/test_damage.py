"""Damage in one file: that file is left out, everything else goes on, and an index is made again."""

from __future__ import annotations

import contextlib
import errno
import random

import pytest
from merge_house import EAGER, House, post, records

from mainstem.kernel.log.damage import Damage, stay_behind
from mainstem.kernel.log.facts import CompactPolicy
from mainstem.kernel.log.jobs import Failed, Merged, MergeJob
from mainstem.kernel.log.manifest import Manifest, RunEntry
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.plan import UpkeepOptions, keyed_choice, tier_choice
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.upkeep import Upkeep
from mainstem.model.errors import BodyGone, CorruptFile, StorageFailed
from mainstem.model.meters import Meters
from mainstem.model.records import decode_records, encode_batch
from mainstem.testing.memory_disk import MemoryDisk

SEALED_HERE = UpkeepOptions(level0_files=2, merge_after_ms=0, survey_every_ms=1 << 60)
FAR_AWAY = UpkeepOptions(level0_files=100, merge_after_ms=1 << 60, survey_every_ms=1 << 60)


def house_on(disk: MemoryDisk, options: UpkeepOptions = SEALED_HERE) -> House:
    return House("/data", options, disk=disk)


def flip(disk: MemoryDisk, path: str, at: int) -> None:
    disk.change(path, lambda data: data.__setitem__(at, data[at] ^ 1))


def damage(disk: MemoryDisk, body: tuple[int, int]) -> None:
    flip(disk, f"/data/files/{body[0]:010d}.journal", body[1] + 100)


def until_quiet(house: House) -> list[object]:
    """What became of the jobs that upkeep still has, given some minutes."""
    house.runner.outcomes.clear()
    for _ in range(20):
        house.now_ms += 10_000
        house.work()
    return house.runner.outcomes


def finished_with(house: House, *partitions: int) -> tuple[int, int]:
    """A finished file that holds these; where the body of the last lies."""
    for partition in partitions:
        body = house.append(partition, 2)
    house.settle()
    return body


def journals(house: House) -> list[int]:
    return [entry.file_id for entry in house.log.files.manifest.journals if entry.size]


def test_a_damaged_file_and_what_must_not_overtake_it_stay_and_the_rest_is_merged():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    before = finished_with(house, 1, 2)
    bad = finished_with(house, 2)
    behind = finished_with(house, 2, 3)
    free = finished_with(house, 4)
    house.trim(999, house.ends[999])
    house.plan()
    damage(disk, bad)
    house.options = SEALED_HERE
    house.open()
    outcomes = until_quiet(house)
    assert sum(isinstance(one, Failed) for one in outcomes) == 1
    assert journals(house) == [bad[0], behind[0]]
    assert before[0] < bad[0] < behind[0] < free[0]
    with pytest.raises(CorruptFile):
        house.check()
    house.reopen()
    del house.model[2]
    house.check()


def test_what_is_deleted_behind_a_damaged_file_goes():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    bad = finished_with(house, 1)
    for _ in range(3):
        finished_with(house, 1)
    house.plan()
    damage(disk, bad)
    house.options = SEALED_HERE
    house.open()
    until_quiet(house)
    assert len(journals(house)) == 4
    house.trim(1, house.ends[1])
    house.trim(999, house.ends[999])
    house.now_ms += SEALED_HERE.damage_wait_ms
    until_quiet(house)
    assert journals(house) == []


def test_a_file_is_tried_again_after_a_long_while():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    bad = finished_with(house, 1)
    house.plan()
    damage(disk, bad)
    house.options = SEALED_HERE
    house.open()
    until_quiet(house)
    assert until_quiet(house) == []
    damage(disk, bad)  # as it was
    house.now_ms += SEALED_HERE.damage_wait_ms
    until_quiet(house)
    assert journals(house) == []
    house.check()


def test_a_damaged_file_that_the_child_cannot_seal_gets_its_index_from_memory_and_the_broker_starts_again():
    house = house_on(disk := MemoryDisk("/data"), EAGER)
    house.append(1, 2)
    bad = house.append(1, 2)
    finished_with(house, 1)
    damage(disk, bad)
    body = finished_with(house, 2)
    outcomes = until_quiet(house)
    assert sum(isinstance(one, Failed) for one in outcomes) == 1
    indexes = {places.file_id: type(places) for places in house.log.sealed}
    assert indexes[bad[0]] is Sidecar
    assert indexes[body[0]] is Sidecar
    house.reopen()
    with pytest.raises(CorruptFile, match=f"{bad[0]:010d}.journal"):
        house.check()
    house.facts.floors[1], before = 4, house.model[1]  # only what is damaged is lost
    assert house.read(1) == before[2:]
    house.facts.floors[1] = 0
    damage(disk, bad)  # as it was
    until_quiet(house)
    assert journals(house) == []
    house.check()


def test_a_damaged_run_without_its_index_gets_that_from_memory_too():
    house = house_on(disk := MemoryDisk("/data"), UpkeepOptions(merge_after_ms=0, survey_every_ms=1 << 60))
    body = finished_with(house, 1, 2)
    house.link(3, body)
    house.work()
    (run,) = house.log.files.manifest.runs
    disk.remove(f"/data/files/{run.file_id:010d}.places")
    house.reopen()
    place = house.log.places(1, 0, 1, 1)[0]
    flip(disk, f"/data/files/{run.file_id:010d}.run", place.position + 100)
    until_quiet(house)
    house.reopen()
    assert house.read(3) == house.model[3], "a body is found by its old address"
    flip(disk, f"/data/files/{run.file_id:010d}.run", place.position + 100)
    house.check()


def test_an_index_that_cannot_be_read_back_is_not_written_over_and_over():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    finished_with(house, 1)
    written = []

    def fault(verb: str, path: str) -> None:
        if verb == "rename" and ".places" in path:
            written.append(path)
            disk.seen.files[disk.seen.names[path]][40] ^= 1

    disk.fault = fault
    until_quiet(house)
    until_quiet(house)
    assert len(written) == 1


def test_partitions_are_held_up_by_what_lives_and_the_owner_gets_turns_meanwhile():
    tables = [PlaceTable(file_id) for file_id in (1, 2, 3, 4)]
    for table, partitions in zip(tables, ([1, 2], [2, 3], [3], [5, 6]), strict=True):
        for partition in partitions:
            table.add(partition, table.file_id * 1000, table.file_id * 1000 + 999, 0, 10, 0)

    def stay(floors: dict[int, int | None]) -> tuple[set[int], int]:
        slices = stay_behind(tables, {1}, lambda partition: floors.get(partition, 0), 1)
        turns = 0
        while True:
            try:
                next(slices)
            except StopIteration as end:
                return set(end.value), turns
            turns += 1

    assert stay({}) == ({1, 2, 3}, 13)
    assert stay({2: 2999})[0] == {1, 2, 3}  # one record lives
    assert stay({2: 3000})[0] == {1}
    assert stay({2: None})[0] == {1}


def in_order(house: House) -> bool:
    """Whether what lives of each partition is found in the order of its offsets."""
    found: dict[int, list[int]] = {}
    for places in house.log.sealed:
        for partition in places.partitions():
            span = places.span(partition)
            floor = house.facts.floor(partition)
            if span is not None and floor is not None and span.last_offset >= floor:
                found.setdefault(partition, []).append(span.first_offset)
    return all(firsts == sorted(firsts) for firsts in found.values())


def test_files_that_stayed_are_merged_later_behind_what_went_before():
    """What was merged meanwhile lies between them in time, and before them in the manifest."""
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    bad = finished_with(house, 1)
    finished_with(house, 2)
    behind = finished_with(house, 1, 2)
    house.trim(999, house.ends[999])
    house.plan()
    damage(disk, bad)
    house.options = SEALED_HERE
    house.open()
    until_quiet(house)
    assert journals(house) == [bad[0], behind[0]]
    house.trim(1, 2)  # retention takes what is damaged
    house.now_ms += SEALED_HERE.damage_wait_ms
    until_quiet(house)
    assert journals(house) == []
    assert in_order(house)
    house.check()


def records_of(batches: list[bytes]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for one in batches for record in decode_records(one)]


def check_with_compaction(house: House) -> None:
    """Of each key the last record is there, in its place; and nothing that was not written."""
    compacted = {partition: house.model.pop(partition, []) for partition in house.facts.policies}
    house.check()
    for partition, batches in compacted.items():
        written, found = records_of(batches), records_of(house.read(partition))
        left = set(found)
        assert found == [record for record in written if record in left]
        assert left >= set({record[1]: record for record in written}.values())
    house.model.update(compacted)


@pytest.mark.parametrize("seed", range(16))
def test_damage_that_comes_and_goes_changes_no_order_and_no_record_and_is_not_met_for_ever(seed):
    chance = random.Random(seed)
    options = UpkeepOptions(
        level0_files=chance.choice([2, 3]), merge_after_ms=0, survey_every_ms=50_000, fan_in=3
    )
    house = house_on(disk := MemoryDisk("/data"), options)
    house.facts.policies = dict.fromkeys(chance.sample(range(1, 8), 2), CompactPolicy())
    bodies: list[tuple[int, int]] = []
    damaged: list[tuple[int, int]] = []

    def mend(body: tuple[int, int]) -> None:
        if disk.exists(f"/data/files/{body[0]:010d}.journal"):
            damage(disk, body)

    for _ in range(40):
        what = chance.random()
        if what < 0.55:
            body = finished_with(house, *chance.sample(range(1, 8), chance.choice([1, 1, 2])))
            house.trim(999, house.ends[999])
            if chance.random() < 0.2:
                for partition in chance.sample(range(1, 8), chance.choice([0, 1, 2])):
                    house.link(partition, body)
                damage(disk, body)
                damaged.append(body)
            else:
                bodies.append(body)
        elif what < 0.7 and bodies:
            with contextlib.suppress(BodyGone, CorruptFile, KeyError):
                house.link(chance.randrange(1, 8), chance.choice(bodies[-4:]))
        elif what < 0.85:
            partition = chance.randrange(1, 8)
            end = house.ends.get(partition, 0)
            house.trim(partition, chance.randint(house.facts.floor(partition) or 0, end))
        elif what < 0.9 and damaged:
            mend(damaged.pop(chance.randrange(len(damaged))))
        elif what < 0.95:
            house.now_ms += options.damage_wait_ms
        house.now_ms += 10_000
        house.work()
        assert in_order(house)
    until_quiet(house)
    assert not any(isinstance(one, Failed) for one in until_quiet(house)), "what is damaged is known by now"
    for body in damaged:
        mend(body)
    check_with_compaction(house)
    house.reopen()
    check_with_compaction(house)
    house.now_ms += options.damage_wait_ms
    house.trim(999, house.ends.get(999, 0))
    assert not any(isinstance(one, Failed) for one in until_quiet(house))
    check_with_compaction(house)


def linked_by_a_compacted_partition(*others: int) -> tuple[House, tuple[int, int]]:
    """Partition 2 is compacted and names a body of partition 1, which lies in an older file."""
    house = house_on(MemoryDisk("/data"), FAR_AWAY)
    house.facts.policies[2] = CompactPolicy()
    body = finished_with(house, 1)
    house.append(2)
    house.link(2, body, 0, 2)
    house.append(2)
    finished_with(house, 3)
    for partition in others:
        finished_with(house, partition)
    house.trim(999, house.ends[999])
    house.plan()
    house.options = SEALED_HERE
    return house, body


def test_compaction_stops_at_a_link_to_a_damaged_body_and_merges_go_on():
    house, bad = linked_by_a_compacted_partition(*range(11, 16))
    damage(house.disk, bad)
    house.open()
    outcomes = until_quiet(house)
    assert sum(isinstance(one, Failed) for one in outcomes) == 1
    (held_back,) = [one for one in outcomes if isinstance(one, Merged) and one.unread_links]
    assert held_back.unread_links == 1
    assert "a linked body does not match its crc" in held_back.why_unread
    assert journals(house) == [bad[0]]
    assert [place.link for place in house.log.places(2, 0, 1000, 100, wait=True)] == [False, True, False]
    assert until_quiet(house) == []
    house.reopen()
    damage(house.disk, bad)  # as it was
    house.check()
    finished_with(house, 2, 3)
    finished_with(house, 2, 3)
    until_quiet(house)
    assert journals(house) == []
    assert not any(place.link for place in house.log.places(2, 0, 1000, 100, wait=True))
    house.check()


def test_records_before_a_link_that_cannot_be_read_are_compacted_and_none_behind_it():
    house = house_on(MemoryDisk("/data"), FAR_AWAY)
    house.facts.policies[2] = CompactPolicy()
    bad = finished_with(house, 1)
    for base in (0, 2):
        house.append_batch(2, bytes(encode_batch(records(2, "same"), base_offset=base)))
    house.link(2, bad, 0, 2)
    for base in (6, 8):
        house.append_batch(2, bytes(encode_batch(records(2, "same"), base_offset=base)))
    finished_with(house, 3)
    finished_with(house, 4)
    house.trim(999, house.ends[999])
    house.plan()
    damage(house.disk, bad)
    house.options = SEALED_HERE
    house.open()
    until_quiet(house)
    assert journals(house) == [bad[0]]
    damage(house.disk, bad)
    assert [offset for offset, _, _ in records_of(house.read(2))] == [2, 3, 4, 5, 6, 7, 8, 9]
    check_with_compaction(house)


def test_a_body_in_a_file_without_a_readable_index_is_read_for_compaction():
    house, body = linked_by_a_compacted_partition()
    (sidecar,) = [places for places in house.log.sealed if places.file_id == body[0]]
    flip(
        house.disk, f"/data/files/{body[0]:010d}.journal", 40
    )  # not the body: the file cannot be read through
    flip(house.disk, sidecar.path, sidecar._rows_at + 50)
    house.upkeep.close()
    house.upkeep = Upkeep(house.log, house.facts, house.runner, post, SEALED_HERE, Meters())
    until_quiet(house)
    assert journals(house) == [body[0]]
    assert not any(place.link for place in house.log.places(2, 0, 1000, 100, wait=True))


def test_damage_that_was_known_and_fails_a_job_again_gives_others_their_turn():
    known = Damage(1000)
    tables = [PlaceTable(file_id) for file_id in (1, 2, 3)]
    where = "/data/files/0000000001.journal"
    assert known.found(where, {2, 3}, tables, 0) == {1}
    assert known.found(where, {2, 3}, tables, 0) == {1, 2, 3}
    assert known.file_ids == {1, 2, 3}
    assert known.found(where, {1, 2}, tables, 0) == {1}
    known.forget(1000, {1, 2, 3})
    assert not known.file_ids
    assert known.found("/data/files/0000000007.journal", {2}, tables, 0) == {2}


def test_the_log_says_how_long_upkeep_waits_and_which_file_is_left_out(caplog):
    house, bad = linked_by_a_compacted_partition()
    damage(house.disk, bad)
    house.open()
    with caplog.at_level("ERROR"):
        house.work()
    (message,) = [r.getMessage() for r in caplog.records if r.name.endswith("upkeep")]
    assert f"wait_ms={SEALED_HERE.retry_ms} " in message
    assert f"left_out=[{bad[0]}] left_out_ms={SEALED_HERE.damage_wait_ms}" in message


def test_a_file_of_which_body_and_index_are_damaged_holds_up_no_other():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    body = finished_with(house, 10)
    bad = finished_with(house, 1)
    house.link(2, body)
    with_link = finished_with(house, 3)
    for partition in range(11, 15):
        finished_with(house, partition)
    house.trim(999, house.ends[999])
    house.plan()
    for one in (bad, with_link):  # nobody can read which bodies links in there name
        damage(disk, one)
        flip(disk, f"/data/files/{one[0]:010d}.places", 40)
    before = house.upkeep
    house.upkeep = Upkeep(house.log, house.facts, house.runner, post, SEALED_HERE, Meters())
    before.close()
    until_quiet(house)
    assert set(journals(house)) == {bad[0], with_link[0]}
    for one in (bad, with_link):
        damage(disk, one)  # as it was
    house.now_ms += SEALED_HERE.damage_wait_ms
    until_quiet(house)
    assert journals(house) == []
    house.check()
    house.reopen()
    house.check()


def groups(*bad: int, keyed: bool = False, levels: tuple[int, ...] = (1,) * 6) -> tuple[Manifest, dict]:
    runs = tuple(RunEntry(i, 100, level, i, keyed) for i, level in enumerate(levels, 1))
    return Manifest("id", 100, runs=runs), {run.file_id: None for run in runs if run.file_id not in bad}


def chosen(choice) -> list[int]:
    return [] if choice is None else [one.file_id for one in choice.inputs]


def test_tiers_are_merged_on_either_side_of_a_damaged_group_and_not_across():
    options = UpkeepOptions(fan_in=4)
    assert chosen(tier_choice(*groups(), options)) == [1, 2, 3, 4, 5, 6]
    assert chosen(tier_choice(*groups(3), options)) == [1, 2]
    assert chosen(tier_choice(*groups(1), options)) == [2, 3, 4, 5, 6]
    assert chosen(tier_choice(*groups(2, 5), options)) == [3, 4]
    assert chosen(tier_choice(*groups(1, 3, 5), options)) == []


def test_compaction_goes_on_behind_a_damaged_group():
    levels = (2, 2, 1, 1)
    assert chosen(keyed_choice(*groups(keyed=True, levels=levels), UpkeepOptions())) == [1, 2, 3, 4]
    assert chosen(keyed_choice(*groups(1, keyed=True, levels=levels), UpkeepOptions())) == [2, 3, 4]
    assert chosen(keyed_choice(*groups(4, keyed=True, levels=levels), UpkeepOptions(dirty_ratio=0.3))) == [
        1,
        2,
        3,
    ]


def with_bad_block(options: UpkeepOptions) -> tuple[House, Sidecar]:
    house = house_on(disk := MemoryDisk("/data"), options)
    finished_with(house, 1, 2, 1)
    house.plan()
    (sidecar,) = [places for places in house.log.sealed if isinstance(places, Sidecar)]
    flip(disk, sidecar.path, sidecar._rows_at + 50)
    return house, sidecar


def test_an_index_that_a_reader_finds_damaged_is_made_again():
    house, _ = with_bad_block(FAR_AWAY)
    house.open()
    with pytest.raises(CorruptFile):
        house.check()
    house.work()
    house.check()
    house.reopen()
    house.check()


def test_an_index_that_a_merge_finds_damaged_is_made_again_and_its_file_merged():
    house, bad = with_bad_block(FAR_AWAY)
    house.options = SEALED_HERE
    house.open()
    until_quiet(house)
    assert bad.file_id not in journals(house)
    house.check()


def test_the_index_of_a_retired_file_is_made_again_and_does_not_become_one_in_use():
    house = house_on(disk := MemoryDisk("/data"), UpkeepOptions(merge_after_ms=0, survey_every_ms=1 << 60))
    body = finished_with(house, 1, 2)
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    house.link(3, body)
    house.runner.work()
    (retired,) = house.log.retired
    flip(disk, retired.path, 100)
    house.settle()
    until_quiet(house)
    assert house.log.retired == ()
    assert body[0] not in {places.file_id for places in house.log.sealed}
    house.check()


def test_damage_in_a_retired_file_keeps_that_file_and_does_not_stop_merges():
    house = house_on(disk := MemoryDisk("/data"), UpkeepOptions(merge_after_ms=0, survey_every_ms=1 << 60))
    body = finished_with(house, 1, 2)
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    house.link(3, body)
    house.runner.work()
    damage(disk, body)
    house.settle()
    until_quiet(house)
    assert [places.file_id for places in house.log.retired] == [body[0]]
    assert journals(house) == []
    damage(disk, body)  # as it was
    house.check()
    house.reopen()
    house.check()


def test_a_file_that_the_disk_cannot_read_is_left_out_and_the_rest_is_merged():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    (bad, _), _ = finished_with(house, 1), finished_with(house, 2)
    house.trim(999, house.ends[999])
    house.plan()
    house.options = SEALED_HERE
    house.open()

    def fault(verb: str, path: str) -> None:
        if verb == "pread" and path.endswith(f"{bad:010d}.journal"):
            raise OSError(errno.EIO, "injected", path)

    disk.fault = fault
    failed, *rest = until_quiet(house)
    assert isinstance(failed, Failed)
    assert failed.corrupt
    assert all(isinstance(one, Merged) for one in rest)
    assert journals(house) == [bad]
    disk.fault = None
    house.now_ms += SEALED_HERE.damage_wait_ms
    until_quiet(house)
    assert journals(house) == []
    house.check()


def test_what_the_disk_cannot_write_is_no_damage_of_what_was_read():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    finished_with(house, 1)
    house.plan()
    house.options = SEALED_HERE
    house.open()

    def fault(verb: str, path: str) -> None:
        if verb == "pwritev" and path.endswith(".run"):
            raise OSError(errno.EIO, "injected", path)

    disk.fault = fault
    assert isinstance(house.plan(), MergeJob)
    house.runner.work()
    (failed,) = house.runner.outcomes
    assert isinstance(failed, Failed)
    assert not failed.corrupt
    disk.fault = None
    house.now_ms += SEALED_HERE.max_retry_ms
    until_quiet(house)
    assert journals(house) == []


def test_an_index_that_cannot_be_synced_ends_the_process_and_one_without_space_waits():
    house = house_on(disk := MemoryDisk("/data"), FAR_AWAY)
    finished_with(house, 1)

    def fail_with(code: int) -> None:
        def fault(verb: str, path: str) -> None:
            if verb == "fsync" and ".places" in path:
                raise OSError(code, "injected")

        disk.fault = fault

    fail_with(errno.ENOSPC)
    house.plan()
    fail_with(errno.EIO)
    house.now_ms += FAR_AWAY.max_retry_ms
    with pytest.raises(StorageFailed, match="index of file"):
        house.plan()


def test_a_clock_that_is_set_back_does_not_stop_merges():
    house = house_on(MemoryDisk("/data"), UpkeepOptions(merge_after_ms=1000, sealed_here_rows=0))
    house.facts.wall_ms = lambda: 7
    finished_with(house, 1)
    until_quiet(house)
    assert journals(house) == []
