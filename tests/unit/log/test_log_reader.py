"""Reading places: few reads, and nothing believed that does not match."""

from __future__ import annotations

import os
import socket

import pytest

from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.layout import Link, Overlay, pack_link, pack_overlay
from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.reader import BodyReader
from mainstem.kernel.log.sound import LARGE_BATCH, SoundBatches
from mainstem.model.batch import read_header
from mainstem.model.errors import CorruptFile
from mainstem.model.records import Record, decode_records, encode_batch
from mainstem.model.slices import Chunk, FileSlice
from mainstem.testing.memory_disk import MemoryDisk, MemoryFile


class World:
    """Files 1 and 2 with bytes at chosen positions, and a count of the reads."""

    def __init__(self) -> None:
        self.disk = MemoryDisk("/d")
        for number in (1, 2):
            self.disk.open(f"/d/{number}", create=True).allocate(400_000)
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


@pytest.fixture
def announced(monkeypatch) -> list[tuple[int, int]]:
    """(size, position) of what the disk was told it will be asked for."""
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(MemoryFile, "will_need", lambda _, size, position: told.append((size, position)))
    return told


def test_small_batches_between_those_of_others_are_asked_for_together(world, announced):
    size = world.batch(1, 0, 0).size
    places = [world.batch(1, 10_000 + number * 8 * size, number) for number in range(200)]
    found = world.reader.batches(places, True)
    assert [bytes(batch) for batch in found] == [world.bytes_at(place) for place in places]
    assert announced == [(512 << 10, 10_000)]


def test_nothing_is_asked_for_ahead_of_one_batch_of_few_or_of_what_must_be_in_memory(world, announced):
    few = [world.batch(1, number * 100_000, number) for number in range(3)]
    world.reader.batches(few, True)
    world.reader.batches(few[:1], True)
    size = few[0].size
    many = [world.batch(1, number * 8 * size, number) for number in range(200)]
    world.disk.all_cached = True
    world.reader.batches(many, False)
    assert announced == []


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
    place = world.batch(1, 399_900, 0)
    world.disk.open("/d/1").truncate(399_950)
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


# --- chunks: what is sent without being read -----------------------------------------------------


LARGE = LARGE_BATCH + 1000


def large(world: World, position: int, base: int, size: int = LARGE) -> Place:
    data = bytes(encode_batch([Record(0, 100, b"k", b"v" * size)], base_offset=base))
    world.put(1, position, data)
    return Place(1, base, base, position, len(data), False)


def as_bytes(chunks: list[Chunk]) -> list[bytes]:
    return [chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks]


def test_a_large_batch_is_read_and_checked_once_and_then_only_named(world):
    place = large(world, 1000, 0)
    first, second = world.reader.chunks([place]), world.reader.chunks([place])
    assert world.reads == 1
    assert [type(chunk) for chunk in first + second] == [memoryview, FileSlice]
    assert as_bytes(first) == as_bytes(second) == [world.bytes_at(place)]


def test_what_this_process_wrote_is_named_at_once_and_what_lies_before_it_is_not(world):
    places = [large(world, 1000, 0), large(world, 2000 + LARGE, 1)]
    world.reader.use_written(1, world.disk.open("/d/1"), places[1].position)
    found = world.reader.chunks(places)
    assert [isinstance(chunk, FileSlice) for chunk in found] == [False, True]
    assert as_bytes(found) == [world.bytes_at(place) for place in places]


def test_small_batches_and_links_are_always_read(world):
    body = large(world, 1000, 0)
    places = [
        world.batch(1, 150_000, 0),
        body,
        world.link(1, 160_000, Link(1, 1, 1000, body.size, 0, 1, 0)),
        large(world, 200_000, 2),
        world.batch(1, 300_000, 3),
    ]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    found = world.reader.chunks(places)
    assert [isinstance(chunk, FileSlice) for chunk in found] == [False, True, False, True, False]
    assert [read_header(batch).base_offset for batch in as_bytes(found)] == [0, 0, 1, 2, 3]


def test_a_batch_that_does_not_match_is_never_named(world):
    place = large(world, 1000, 0)
    world.put(1, 2000, b"!")
    for _ in range(2):
        with pytest.raises(CorruptFile):
            world.reader.chunks([place])


def test_a_file_that_was_out_of_memory_is_checked_again(world):
    places = [large(world, 1000, 0), large(world, 2000 + LARGE, 1)]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    assert all(isinstance(chunk, FileSlice) for chunk in world.reader.chunks(places))
    world.disk.all_cached = False
    with pytest.raises(WouldBlock):
        world.reader.chunks(places[:1])
    world.disk.all_cached = True
    assert not any(isinstance(chunk, FileSlice) for chunk in world.reader.chunks(places))
    assert all(isinstance(chunk, FileSlice) for chunk in world.reader.chunks(places))


def test_a_reader_thread_vouches_for_what_it_checked(world):
    place = large(world, 1000, 0)
    world.reader.batches([place], True)
    assert isinstance(world.reader.chunks([place])[0], FileSlice)


def test_nothing_is_known_of_a_file_that_was_forgotten(world):
    place = large(world, 1000, 0)
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    world.reader.forget(1)
    assert not isinstance(world.reader.chunks([place])[0], FileSlice)


def test_only_so_many_batches_are_remembered():
    sound = SoundBatches(max_noted=3)
    places = [Place(number % 2, number, number, number, LARGE, False) for number in range(4)]
    for place in (*places[:3], *places[:3]):
        sound.note(place)
    assert [sound.holds(place) for place in places] == [True, True, True, False]
    sound.note(places[3])
    assert [sound.holds(place) for place in places] == [False, False, False, True]
    sound.forget(1)
    assert not sound.holds(places[3])


# --- the real disk -------------------------------------------------------------------------------


def test_a_slice_outlives_its_files_name(tmp_path):
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    data = bytes(range(256)) * 8
    file.pwritev([b"head", data, b"tail"], 0)
    cut = FileSlice(file, 4, len(data))
    (tmp_path / "f").unlink()
    del file
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        assert cut.send(ours.fileno()) == len(cut) == len(data)
        assert peer.recv(1 << 20) == data
    assert (cut.read(), cut.read(10), cut.read(10, 5)) == (data, data[10:], data[10:15])


def test_a_socket_takes_what_it_can_and_a_broken_one_nothing(tmp_path):
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    data = os.urandom(8 << 20)
    file.pwritev([data], 0)
    assert file.is_cached(len(data), 0)
    assert not file.is_cached(len(data) + 1, 0)
    ours, peer = socket.socketpair()
    with ours:
        ours.setblocking(False)
        cut = FileSlice(file, 0, len(data))
        sent = cut.send(ours.fileno())
        assert 0 < sent < len(data)
        assert cut.send(ours.fileno()) == 0
        assert peer.recv(sent, socket.MSG_WAITALL) + cut.read(sent) == data
        peer.close()
        assert cut.send(ours.fileno()) == 0
    file.truncate(100)
    with pytest.raises(CorruptFile, match="ends within"):
        cut.read()
