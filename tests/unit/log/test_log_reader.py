"""Reading places: few reads, and nothing believed that does not match."""

from __future__ import annotations

import pytest

from mainstem.kernel.log.layout import Link, Overlay, pack_link, pack_overlay
from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.reader import BodyReader
from mainstem.model.batch import read_header
from mainstem.model.errors import CorruptFile
from mainstem.model.records import Record, decode_records, encode_batch
from mainstem.testing.memory_disk import MemoryDisk


class World:
    """Files 1 and 2 with bytes at chosen positions, and a count of the reads."""

    def __init__(self) -> None:
        self.disk = MemoryDisk("/d")
        for number in (1, 2):
            self.disk.open(f"/d/{number}", create=True).allocate(100_000)
        self.reads = 0
        self.disk.fault = self._count
        self.reader = BodyReader(lambda file_id: self.disk.open(f"/d/{file_id}"))

    def _count(self, verb: str, path: str) -> None:
        self.reads += verb == "pread"

    def put(self, file_id: int, position: int, data: bytes) -> None:
        self.disk.open(f"/d/{file_id}").pwritev([data], position)

    def batch(self, file_id: int, position: int, base: int, records: int = 1, **options) -> Place:
        made = [Record(0, 100 + at, b"k%d" % at, b"v" * 50) for at in range(records)]
        data = bytes(encode_batch(made, base_offset=base, **options))
        self.put(file_id, position, data)
        return Place(file_id, base, base + records - 1, position, len(data), False)

    def link(self, file_id: int, position: int, link: Link) -> Place:
        data = pack_link(link)
        self.put(file_id, position, data)
        last = link.base_offset + link.records - 1
        return Place(file_id, link.base_offset, last, position, len(data), True)

    def bytes_at(self, place: Place) -> bytes:
        return self.disk.open(f"/d/{place.file_id}").pread(place.size, place.position)


@pytest.fixture
def world() -> World:
    return World()


def test_places_that_lie_together_are_read_at_once(world):
    places = [world.batch(1, 1000, 0)]
    places.append(world.batch(1, 1000 + places[0].size + 16, 1))
    places.append(world.batch(1, places[1].position + places[1].size + 16, 2))
    found = world.reader.batches(places, True)
    assert world.reads == 1
    assert [bytes(batch) for batch in found] == [world.bytes_at(place) for place in places]


def test_places_far_apart_are_read_one_by_one(world):
    places = [world.batch(1, 1000, 0), world.batch(1, 50_000, 1)]
    assert len(world.reader.batches(places, True)) == 2
    assert world.reads == 2


def test_places_in_two_files_are_read_from_their_own(world):
    first = world.batch(1, 1000, 0)
    second = world.batch(2, 1000 + first.size, 1)
    found = world.reader.batches([first, second], True)
    assert [read_header(batch).base_offset for batch in found] == [0, 1]


def test_places_in_backward_order_are_read_all_the_same(world):
    places = [world.batch(1, 1000, 0), world.batch(1, 3000, 1), world.batch(1, 2000, 2)]
    found = world.reader.batches(places, True)
    assert [read_header(batch).base_offset for batch in found] == [0, 1, 2]


def test_a_read_that_may_not_wait_says_so(world):
    place = world.batch(1, 1000, 0)
    assert len(world.reader.batches([place], False)) == 1
    world.disk.all_cached = False
    with pytest.raises(WouldBlock):
        world.reader.batches([place], False)


@pytest.mark.parametrize("at", [0, 7, 8, 11, 16, 17, 20, 21, 60, 100])
def test_a_damaged_batch_is_named_with_file_and_position(world, at):
    good, place = world.batch(1, 900, 0), world.batch(1, 1080, 1)
    world.put(1, place.position + at, bytes([world.bytes_at(place)[at] ^ 4]))
    with pytest.raises(CorruptFile) as raised:
        world.reader.batches([good, place], True)
    assert (raised.value.path, raised.value.position) == ("/d/1", 1080)


@pytest.mark.parametrize("epoch", [0, 7])
def test_a_leader_epoch_that_the_index_knows_is_checked(world, epoch):
    place = world.batch(1, 1000, 0, leader_epoch=7)._replace(epoch=epoch)
    if epoch == 7:
        assert len(world.reader.batches([place], True)) == 1
    else:
        with pytest.raises(CorruptFile, match="is not the one that the index names"):
            world.reader.batches([place], True)


def test_a_file_that_ends_too_soon_is_named(world):
    place = world.batch(1, 99_900, 0)
    world.disk.open("/d/1").truncate(99_950)
    with pytest.raises(CorruptFile, match="the file ends within"):
        world.reader.batches([place], True)


def test_a_body_file_that_is_gone_is_named(world):
    place = world.link(1, 500, Link(0, 77, 1000, 120, 0, 1, 0))
    with pytest.raises(CorruptFile, match="/d/77 .* missing"):
        world.reader.batches([place], True)


# --- links -------------------------------------------------------------------------------------


def test_a_link_to_a_whole_body_is_the_body_at_another_offset(world):
    body = world.batch(1, 1000, 5, records=3, leader_epoch=9)
    place = world.link(2, 500, Link(70, 1, 1000, body.size, 0, 3, 102, leader_epoch=2))
    (found,) = world.reader.batches([place], True)
    header = read_header(found)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (70, 72, 2)
    assert bytes(found)[16:] == world.bytes_at(body)[16:]


def test_a_link_to_some_records_is_a_batch_of_those(world):
    body = world.batch(1, 1000, 5, records=4)
    place = world.link(2, 500, Link(70, 1, 1000, body.size, 1, 2, 102))
    (found,) = world.reader.batches([place], True)
    assert [(r.offset, r.key, r.timestamp_ms) for r in decode_records(found)] == [
        (70, b"k1", 101),
        (71, b"k2", 102),
    ]


def test_a_link_adds_its_overlay_and_the_same_link_always_reads_the_same(world):
    body = world.batch(1, 1000, 5, records=2)
    overlay = pack_overlay(Overlay((("x-death", b"expired"),)))
    place = world.link(2, 500, Link(70, 1, 1000, body.size, 0, 2, 101, overlay))
    (found,) = world.reader.batches([place], True)
    assert [r.headers for r in decode_records(found)] == [(("x-death", b"expired"),)] * 2
    assert world.reader.batches([place], True) == [found]


def test_a_link_to_a_body_with_a_producer_reads_without_one(world):
    body = world.batch(1, 1000, 5, producer_id=8, producer_epoch=1, base_sequence=3)
    place = world.link(2, 500, Link(70, 1, 1000, body.size, 0, 1, 100))
    (found,) = world.reader.batches([place], True)
    header = read_header(found)
    assert (header.producer_id, header.base_offset) == (-1, 70)


def test_a_link_finds_a_body_in_its_own_frame_by_distance(world):
    body = world.batch(1, 1000, 0)
    place = world.link(1, 3000, Link(70, 0, 2000, body.size, 0, 1, 100))
    (found,) = world.reader.batches([place], True)
    assert bytes(found)[16:] == world.bytes_at(body)[16:]


def test_a_link_finds_a_body_that_has_moved(world):
    body = world.batch(2, 7000, 0)
    inside = world.link(1, 3000, Link(70, 0, 2000, body.size, 0, 1, 100))
    outside = world.link(1, 3100, Link(71, 1, 1000, body.size, 0, 1, 100))
    world.reader.use_moved({(1, 1000): (2, 7000)})
    for found in world.reader.batches([inside, outside], True):
        assert bytes(found)[16:] == world.bytes_at(body)[16:]


def test_a_damaged_link_or_body_is_named_where_it_lies(world):
    body = world.batch(1, 1000, 0)
    place = world.link(2, 500, Link(70, 1, 1000, body.size, 0, 1, 100))
    data = world.bytes_at(place)
    world.put(2, 500 + 30, bytes([data[30] ^ 1]))
    with pytest.raises(CorruptFile, match="link at offset 70 is damaged") as raised:
        world.reader.batches([place], True)
    assert (raised.value.path, raised.value.position) == ("/d/2", 500)
    world.put(2, 500, data)
    world.put(1, 1000 + 80, b"!")
    with pytest.raises(CorruptFile, match="linked body") as raised:
        world.reader.batches([place], True)
    assert (raised.value.path, raised.value.position) == ("/d/1", 1000)
