from __future__ import annotations

import pytest
from merge_house import EAGER, House

from mainstem.kernel.log.compact import Compaction
from mainstem.kernel.log.facts import CompactPolicy
from mainstem.kernel.log.jobs import CompactOrder
from mainstem.model.batch import read_header
from mainstem.model.records import Record, control_batch, decode_records, encode_batch

NOW_MS = 1_000_000
ORDER = CompactOrder(stable_offset=1 << 60, delete_retention_ms=1000, min_lag_ms=0, oldest=True)


def batch(base: int, *pairs: tuple[str | None, str | None], timestamp_ms: int = 500, **fields) -> bytes:
    found = [
        Record(at, timestamp_ms, key and key.encode(), value and value.encode())
        for at, (key, value) in enumerate(pairs)
    ]
    return bytes(encode_batch(found, base_offset=base, **fields))


def marker(base: int, producer: int, commit: bool) -> bytes:
    return bytes(control_batch(base, producer, 0, commit, 500, 0, 0))


def compacted(batches: list[bytes], order: CompactOrder = ORDER, now_ms: int = NOW_MS, max_keys: int = 100):
    work = Compaction(order, now_ms, max_keys)
    work.study(lambda: iter(batches))
    return [bytes(left) for one in batches if (left := work.clean(one)) is not None]


def kept(batches: list[bytes]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for one in batches
        if not read_header(one).is_control
        for record in decode_records(one)
    ]


def test_the_last_record_of_each_key_stays_at_its_offset():
    left = compacted(
        [batch(0, ("a", "1"), ("b", "1")), batch(2, ("a", "2"), ("c", "1")), batch(4, ("a", "3"))]
    )
    assert kept(left) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert [(read_header(one).base_offset, read_header(one).last_offset) for one in left] == [
        (0, 1),
        (2, 3),
        (4, 4),
    ]


def test_a_batch_that_keeps_everything_is_not_touched():
    batches = [batch(0, ("a", "1"), codec=1), batch(1, ("b", "1"))]
    assert compacted(batches) == batches


def test_records_without_a_key_go():
    assert kept(compacted([batch(0, (None, "x"), ("a", "1"))])) == [(1, b"a", b"1")]


def test_nothing_at_or_above_the_stable_offset_is_touched_or_counts():
    order = CompactOrder(2, 1000, 0, True)
    batches = [batch(0, ("a", "1")), batch(1, ("a", "2")), batch(2, ("a", "3"))]
    assert kept(compacted(batches, order)) == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_young_records_are_safe_for_the_minimum_lag():
    order = CompactOrder(1 << 60, 1000, 5000, True)
    batches = [
        batch(0, ("a", "1")),
        batch(1, ("a", "2")),
        batch(2, ("a", "3"), timestamp_ms=NOW_MS - 4000),
        batch(3, ("a", "4")),
    ]
    assert kept(compacted(batches, order)) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def test_a_tombstone_stays_until_its_horizon_and_then_goes():
    first = compacted([batch(0, ("a", "1")), batch(1, ("a", None), ("b", "1"))])
    assert kept(first) == [(1, b"a", None), (2, b"b", b"1")]
    assert read_header(first[0]).has_delete_horizon
    assert read_header(first[0]).base_timestamp_ms == NOW_MS + 1000
    assert decode_records(first[0])[0].timestamp_ms == 500
    again = compacted(first, now_ms=NOW_MS + 999)
    assert again == first
    assert kept(compacted(first, now_ms=NOW_MS + 1000)) == [(2, b"b", b"1")]


def test_a_tombstone_stays_while_older_files_may_hold_its_key():
    order = CompactOrder(1 << 60, 1000, 0, False)
    first = compacted([batch(0, ("a", None))], order)
    assert kept(compacted(first, order, now_ms=NOW_MS + 5000)) == [(0, b"a", None)]


def test_records_of_aborted_transactions_go_and_replace_nothing():
    left = compacted(
        [
            batch(0, ("a", "1")),
            batch(
                1,
                ("a", "2"),
                ("b", "1"),
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            ),
            marker(3, 7, commit=False),
            batch(4, ("c", "1"), producer_id=7, producer_epoch=0, base_sequence=2, transactional=True),
            marker(5, 7, commit=True),
        ]
    )
    assert kept(left) == [(0, b"a", b"1"), (4, b"c", b"1")]
    assert [read_header(one).base_offset for one in left if read_header(one).is_control] == [3, 5]


def test_a_commit_marker_goes_with_the_last_record_of_its_transaction():
    left = compacted(
        [
            batch(0, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True),
            marker(1, 7, commit=True),
            batch(2, ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True),
            marker(3, 7, commit=True),
        ]
    )
    assert [read_header(one).base_offset for one in left] == [2, 3]


def test_a_transaction_without_its_end_in_the_files_holds_compaction_back():
    open_one = batch(1, ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    batches = [batch(0, ("a", "1")), open_one, batch(2, ("a", "3"))]
    assert kept(compacted(batches)) == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]


def test_the_last_batch_of_all_stays_even_when_it_is_empty_so_that_readers_reach_the_end():
    (tombstone,) = compacted([batch(4, ("a", None))])  # now it has its horizon
    batches = [batch(0, ("b", "1"), ("b", "2")), tombstone]
    left = compacted(batches, now_ms=NOW_MS + 2000)
    assert kept(left) == [(1, b"b", b"2")]
    assert [(read_header(one).base_offset, read_header(one).record_count) for one in left] == [(0, 1), (4, 0)]
    assert len(compacted([*left, batch(5, ("c", "1"))])) == 2, "until another one follows"


def test_the_last_batch_of_a_producer_stays_even_when_it_is_empty():
    left = compacted(
        [
            batch(0, ("a", "1"), producer_id=7, producer_epoch=3, base_sequence=0),
            batch(1, ("a", "2"), producer_id=7, producer_epoch=3, base_sequence=1),
            batch(2, ("a", "3")),
        ]
    )
    assert kept(left) == [(2, b"a", b"3")]
    header = read_header(left[0])
    assert (header.producer_id, header.base_sequence, header.base_offset, header.record_count) == (7, 1, 1, 0)


@pytest.mark.parametrize("max_keys", [1, 3, 10, 1000])
def test_more_keys_than_fit_are_compacted_in_passes(max_keys):
    batches = [batch(at, (f"k{at % 37}", str(at))) for at in range(200)]
    assert [offset for offset, _, _ in kept(compacted(batches, max_keys=max_keys))] == list(range(163, 200))


def keyed(house: House, partition: int, *pairs: tuple[str | None, str | None]) -> None:
    house.append_batch(partition, batch(house.ends.get(partition, 0), *pairs))


@pytest.fixture
def house(tmp_path):
    found = House(str(tmp_path))
    found.facts.policies[1] = CompactPolicy(delete_retention_ms=1000)
    return found


def test_compacted_partitions_get_runs_of_their_own_and_are_compacted_across_merges(house):
    for turn in range(4):
        for key in "abc":
            keyed(house, 1, (key, f"{turn}"))
            house.append(2)
        house.settle()
        house.work()
    runs = house.log.files.manifest.runs
    assert {run.keyed for run in runs} == {True, False}
    assert kept(house.read(1)) == [(9, b"a", b"3"), (10, b"b", b"3"), (11, b"c", b"3")]
    house.model.pop(1)
    house.check()
    house.reopen()
    house.check()
    assert [offset for offset, _, _ in kept(house.read(1))] == [9, 10, 11]


def test_a_deleted_key_does_not_come_back(house):
    keyed(house, 1, ("a", "1"))
    house.settle()
    house.work()
    keyed(house, 1, ("a", None))
    house.settle()
    house.work()
    house.now_ms += 5000
    keyed(house, 1, ("b", "1"))
    house.settle()
    house.work()
    for turn in range(3):
        house.now_ms += 5000
        keyed(house, 1, ("b", f"{turn}"))
        house.settle()
        house.work()
        assert not [value for _, key, value in kept(house.read(1)) if key == b"a" and value is not None]
    assert [key for _, key, _ in kept(house.read(1))] == [b"b"]


def test_a_topic_may_be_switched_between_compacted_and_not(house):
    for turn in range(6):
        if turn % 2:
            house.facts.policies.pop(1, None)
        else:
            house.facts.policies[1] = CompactPolicy()
        for key in "ab":
            keyed(house, 1, (key, f"{turn}"))
            house.append(2)
        house.settle()
        house.work()
        found = kept(house.read(1))
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        assert {key: value for _, key, value in found} == {b"a": b"%d" % turn, b"b": b"%d" % turn}


def test_a_link_in_a_compacted_partition_becomes_a_batch(house):
    body = house.append(2, count=2)
    house.link(1, body, first=0, count=2)
    house.settle()
    house.work()
    assert [p.link for p in house.log.places(1, 0, 1000, 100, wait=True)] == [False]
    house.check()


def test_a_linked_body_is_kept_whole_when_its_own_place_is_compacted(house):
    keyed(house, 1, ("a", "1"), ("b", "1"))
    place = house.log.places(1, 0, 1, 100)[0]
    house.link(3, (place.file_id, place.position), first=0, count=2)
    keyed(house, 1, ("a", "2"))
    house.settle()
    house.work()
    assert kept(house.read(1)) == [(1, b"b", b"1"), (2, b"a", b"2")]
    house.model.pop(1)
    house.check()
    assert EAGER.dirty_ratio == 0.5
