"""The table in memory against a plain list, and the sidecar against the table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.kernel.log.places import Place, PlaceTable, WouldBlock
from mainstem.kernel.log.scan import Rows
from mainstem.kernel.log.sidecar import CACHED_BLOCKS, ROWS_PER_BLOCK, Sidecar, SidecarWriter, open_sidecar
from mainstem.model.errors import CorruptFile
from mainstem.testing.memory_disk import MemoryDisk

# partition, records, hole before it, size, timestamp, link, leader epoch
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(1, 5),
        st.integers(0, 2),
        st.integers(61, 500),
        st.integers(-5, 50),
        st.booleans(),
        st.integers(-1, 3),
    ),
    max_size=60,
)


def filled(rows) -> tuple[PlaceTable, dict[int, list[tuple[Place, int]]]]:
    """A table, and the same as lists of (place, own timestamp)."""
    table, model = PlaceTable(9), {}
    ends: dict[int, int] = {}
    position = 32
    for partition, records, hole, size, timestamp_ms, link, epoch in rows:
        base = ends.get(partition, 0) + hole
        last = base + records - 1
        ends[partition] = last + 1
        table.add(partition, base, last, position, size, timestamp_ms, link, epoch)
        place = Place(9, base, last, position, size, link, epoch)
        model.setdefault(partition, []).append((place, timestamp_ms))
        position += size + 16
    return table, model


def sidecar_of(table: PlaceTable, **extra) -> Sidecar:
    writer = SidecarWriter(table.file_id)
    for partition in table.partitions():
        for place, top_ms in table.rows(partition):
            writer.add(partition, place, top_ms)
    disk = MemoryDisk("/d")
    writer.write(disk, "/d/9.places", 12345, **extra)
    return open_sidecar(disk, "/d/9.places")


def expected_find(model, partition, offset, max_bytes) -> list[Place]:
    found, total = [], 0
    for place, _ in model.get(partition, []):
        if place.last >= offset and (not found or total < max_bytes):
            found.append(place)
            total += place.size
    return found


def expected_time(model, partition, timestamp_ms) -> Place | None:
    return next((place for place, ms in model.get(partition, []) if ms >= timestamp_ms), None)


@given(rows=ROWS, as_sidecar=st.booleans())
def test_an_index_finds_what_a_list_would(rows, as_sidecar):
    table, model = filled(rows)
    index = sidecar_of(table) if as_sidecar else table
    assert index.partitions() == sorted(model)
    for partition in range(8):
        places = model.get(partition, [])
        span = index.span(partition)
        if not places:
            assert span is None
        else:
            assert span is not None
            assert (span.first_offset, span.last_offset) == (places[0][0].base, places[-1][0].last)
            assert span.max_timestamp_ms == max(ms for _, ms in places)
            assert span.total_bytes == sum(place.size for place, _ in places)
        end = places[-1][0].last + 2 if places else 2
        for offset in range(end):
            for max_bytes in (0, 1, 400, 10_000):
                expected = expected_find(model, partition, offset, max_bytes)
                assert index.find(partition, offset, max_bytes, True) == expected
        for timestamp_ms in range(-6, 52, 3):
            assert index.find_time(partition, timestamp_ms, True) == expected_time(
                model, partition, timestamp_ms
            )


@given(rows=ROWS)
def test_rows_added_as_columns_are_the_same_as_added_one_by_one(rows):
    plain = [(p, r, h, s, t, False, e) for p, r, h, s, t, _, e in rows]
    one_by_one, model = filled(plain)
    flat = sorted(
        (place.position, partition, place, ms) for partition in model for place, ms in model[partition]
    )
    columns = Rows(
        partitions=[partition for _, partition, _, _ in flat],
        bases=[place.base for _, _, place, _ in flat],
        lasts=[place.last for _, _, place, _ in flat],
        positions=[place.position for _, _, place, _ in flat],
        sizes=[place.size for _, _, place, _ in flat],
        tops=[ms for *_, ms in flat],
        epochs=[place.epoch for _, _, place, _ in flat],
        producers=[-1] * len(flat),
        others=[],
        before=[],
        round_number=0,
        sealed=False,
    )
    table = PlaceTable(9)
    half = len(flat) // 2
    table.extend(columns, 0, half)
    table.extend(columns, half, len(flat))
    assert len(table) == len(one_by_one)
    for partition in one_by_one.partitions():
        assert list(table.rows(partition)) == list(one_by_one.rows(partition))
        assert table.span(partition) == one_by_one.span(partition)


def test_the_last_place_below_an_offset():
    table, _ = filled([(1, 2, 0, 100, 0, False, 0), (1, 3, 0, 100, 0, False, 0)])
    assert table.last_below(1, 0) is None
    assert [table.last_below(1, offset).base for offset in (1, 2, 3, 99)] == [0, 0, 2, 2]
    assert table.last_below(2, 5) is None


@given(rows=ROWS)
def test_a_sidecar_keeps_every_row_in_order(rows):
    table, _ = filled(rows)
    sidecar = sidecar_of(table)
    assert (sidecar.file_id, sidecar.row_count, sidecar.body_file_size) == (9, len(table), 12345)
    for partition in table.partitions():
        assert list(sidecar.rows(partition)) == list(table.rows(partition))
    assert list(sidecar.rows(77)) == []


@given(
    rows=ROWS,
    looks=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 60), st.sampled_from([1, 400, 2000]))),
)
def test_a_sidecar_finds_the_same_whatever_was_looked_up_before(rows, looks):
    table, model = filled(rows)
    sidecar = sidecar_of(table)
    for partition, offset, max_bytes in looks:
        found = sidecar.find(partition, offset, max_bytes)
        assert found == expected_find(model, partition, offset, max_bytes)
        if found:
            follow = (partition, found[-1].last + 1, max_bytes)
            assert sidecar.find(*follow) == expected_find(model, *follow)


def test_a_sidecar_of_many_blocks_finds_rows_in_all_of_them():
    count = ROWS_PER_BLOCK * (CACHED_BLOCKS + 5)
    table, _ = filled([(number % 7, 1, 0, 61, number, False, 0) for number in range(count)])
    sidecar = sidecar_of(table)
    for partition in range(7):
        for offset in range(0, count // 7, 97):
            assert sidecar.find(partition, offset, 1, True) == table.find(partition, offset, 1)


def test_a_sidecar_keeps_links_and_moved_bodies():
    table, _ = filled([(1, 1, 0, 61, 0, False, 0)])
    sidecar = sidecar_of(table, links=[(5, 6), (1, 2), (5, 6)], moved=[(3, 4, 5), (1, 1, 1)])
    assert [tuple(link) for link in sidecar.links] == [(1, 2), (5, 6)]
    assert sidecar.moved == [(1, 1, 1), (3, 4, 5)]


def test_a_sidecar_does_not_wait_for_the_disk_unless_it_may():
    table, _ = filled([(1, 1, 0, 61, 0, False, 0)] * 3)
    writer = SidecarWriter(9)
    for place, top_ms in table.rows(1):
        writer.add(1, place, top_ms)
    disk = MemoryDisk("/d")
    writer.write(disk, "/d/9.places", 1)
    sidecar = open_sidecar(disk, "/d/9.places")
    disk.all_cached = False
    assert sidecar.span(1) is not None
    with pytest.raises(WouldBlock):
        sidecar.find(1, 0, 1, False)
    assert len(sidecar.find(1, 0, 1, True)) == 1
    assert len(sidecar.find(1, 0, 1, False)) == 1  # the block is in memory now


def test_a_damaged_block_of_a_sidecar_is_named_when_it_is_read():
    table, _ = filled([(1, 1, 0, 61, 0, False, 0)] * 300)
    writer = SidecarWriter(9)
    for place, top_ms in table.rows(1):
        writer.add(1, place, top_ms)
    disk = MemoryDisk("/d")
    writer.write(disk, "/d/9.places", 1)
    size = disk.open("/d/9.places").size()

    def damage(data: bytearray) -> None:
        data[size - 2000] ^= 1

    disk.change("/d/9.places", damage)
    sidecar = open_sidecar(disk, "/d/9.places")
    assert sidecar.find(1, 0, 1, True)
    with pytest.raises(CorruptFile, match=r"/d/9.places .* a block of the sidecar") as raised:
        sidecar.find(1, 299, 1, True)
    assert raised.value.position == size - 4096
