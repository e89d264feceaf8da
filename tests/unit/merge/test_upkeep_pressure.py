"""Upkeep while clients are busy, files pile up, merges are held and topics change under them."""

import pytest
from merge_house import EAGER, House

from mainstem.kernel.log.facts import CompactPolicy
from mainstem.kernel.log.jobs import MergeJob, SealJob
from mainstem.kernel.log.manifest import Manifest, RunEntry
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.plan import UpkeepOptions, tier_choice
from mainstem.kernel.log.sidecar import Sidecar

GIB = 1 << 30


def chosen(*sizes_gib: float) -> list[float]:
    """Sizes of the groups of level 1 that the defaults merge first, of groups with these sizes."""
    runs = tuple(RunEntry(i, int(size * GIB), 1, i) for i, size in enumerate(sizes_gib, 1))
    choice = tier_choice(Manifest("id", 100, runs=runs), {run.file_id: None for run in runs}, UpkeepOptions())
    return [] if choice is None else [one.size / GIB for one in choice.inputs]


def test_a_level_is_merged_by_its_oldest_neighbours_that_fit():
    assert chosen(*[4] * 8) == [4] * 8
    assert chosen(*[4] * 7) == []
    assert chosen(16, 16, *[1] * 6) == [16, 16]
    assert chosen(*[16] * 8) == [16, 16]


def test_groups_too_large_for_a_merge_do_not_keep_the_small_ones_from_theirs():
    assert chosen(31, 31, *[1] * 6) == [1] * 6
    assert chosen(*[1] * 3, 31, *[1] * 4) == [1] * 3
    assert chosen(*[20] * 9) == []


def test_files_that_keep_coming_do_not_keep_a_merge_waiting(tmp_path):
    house = House(str(tmp_path))
    house.settle()
    for _ in range(10):
        house.append(1)
        house.settle()
        job = house.plan()
        house.runner.work()
        if isinstance(job, MergeJob):
            break
    assert isinstance(job, MergeJob)
    house.check()


def held_merge(tmp_path, **changes) -> House:
    """A house whose merge has been started and is not done."""
    options = UpkeepOptions(merge_after_ms=0, **changes)
    house = House(str(tmp_path), options)
    house.bodies = [house.append(at % 5, size=2000) for at in range(20)]
    house.settle()
    while not isinstance(house.plan(), MergeJob):
        if house.runner.jobs:
            house.runner.work()
    return house


def tables(house: House) -> list[PlaceTable]:
    return [places for places in house.log.sealed if isinstance(places, PlaceTable)]


def test_short_indexes_are_sealed_while_a_merge_goes_on(tmp_path):
    house = held_merge(tmp_path)
    sealed = len(house.log.sealed)
    for at in range(40):
        house.append(at % 5, size=2000)
    house.roll()
    assert len(tables(house)) > 2
    house.plan()
    house.plan()
    assert not tables(house)
    assert len(house.log.sealed) > sealed
    assert len(house.runner.jobs) == 1
    house.runner.work()
    house.work()
    house.check()
    house.reopen()
    house.check()


def test_an_index_with_links_is_not_sealed_while_a_merge_goes_on(tmp_path):
    house = held_merge(tmp_path)
    house.link(7, house.bodies[0])
    house.roll()
    house.plan()
    house.plan()
    assert len(tables(house)) == 1
    house.runner.work()
    house.work()
    assert all(isinstance(places, Sidecar) for places in house.log.sealed)
    house.check()


@pytest.mark.parametrize(("max_waiting_rows", "stay"), [(10, 0), (1_000_000, 1)])
def test_long_indexes_wait_for_a_merge_until_they_are_too_many(tmp_path, max_waiting_rows, stay):
    house = held_merge(tmp_path, sealed_here_rows=10, max_waiting_rows=max_waiting_rows)
    for at in range(150):
        house.append(at % 5)
    house.roll()
    house.plan()
    house.plan()
    assert bool(tables(house)) is bool(stay)
    house.runner.work()
    house.work()
    house.check()


def test_a_merge_that_compacts_a_topic_is_dropped_if_the_topic_no_longer_is(tmp_path):
    house = House(str(tmp_path), EAGER)
    house.facts.policies[1] = CompactPolicy(0, 0)
    for _ in range(3):
        for at in range(20):
            house.append(at % 3, size=500)
        house.settle()
    while not isinstance(house.plan(), MergeJob):
        house.runner.work()
    before = house.log.files.manifest
    del house.facts.policies[1]
    house.runner.work()
    assert house.log.files.manifest.runs == before.runs
    assert house.log.files.manifest.journals == before.journals
    house.check()


def test_an_index_that_the_child_seals_is_not_sealed_here_too(tmp_path):
    house = House(
        str(tmp_path), UpkeepOptions(merge_after_ms=1 << 60, sealed_here_rows=10, max_waiting_rows=10)
    )
    for at in range(150):
        house.append(at % 5)
    house.roll()
    assert isinstance(house.plan(), SealJob)
    house.plan()
    assert tables(house)
    house.runner.work()
    while tables(house):
        house.work()
    house.check()


def test_indexes_that_are_sealed_together_stay_in_the_order_of_their_files(tmp_path):
    """Files between them wait longer: those with links, while a merge goes on."""
    house = held_merge(tmp_path)
    merging = len(house.log.sealed)
    for number in range(4):
        house.append(1, 2)
        if number % 2 == 0:
            house.link(2, house.bodies[0])
        house.roll()
        house.plan()
    waiting = [isinstance(places, PlaceTable) for places in house.log.sealed[merging:]]
    assert True in waiting[: waiting.index(False) + 1], "nothing lies between"
    house.check()
    house.runner.work()
    house.plan()
    house.plan()
    house.check()
    files = [places.file_id for places in house.log.sealed]
    manifest = house.log.files.manifest
    assert files == [e.file_id for e in manifest.runs] + [e.file_id for e in manifest.journals if e.size]


def test_long_and_short_indexes_that_wait_together_stay_in_the_order_of_their_files(tmp_path):
    """After a start all finished files wait; the long ones are left to the child."""
    house = House(str(tmp_path), UpkeepOptions(sealed_here_rows=20))
    for count in (1, 30, 1, 30, 1):
        for _ in range(count):
            house.append(1)
        house.roll()
    house.reopen()
    order = [places.file_id for places in house.log.sealed]
    assert all(isinstance(places, PlaceTable) for places in house.log.sealed)
    house.plan()
    assert {isinstance(places, PlaceTable) for places in house.log.sealed} == {True, False}
    assert [places.file_id for places in house.log.sealed] == order
    house.check()
