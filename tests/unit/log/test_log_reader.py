"""Reading places: few reads, and nothing believed that does not match."""

from __future__ import annotations

import os
import socket

import pytest

from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.layout import Link, Overlay, pack_link, pack_overlay
from mainstem.kernel.log.places import Place, WouldBlock
from mainstem.kernel.log.reader import BodyReader
from mainstem.kernel.log.resident import is_resident
from mainstem.kernel.log.sound import LARGE_SLICE
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


def test_batches_far_apart_are_asked_for_a_few_at_a_time_each_where_it_lies(world, announced):
    places = [world.batch(1, number * 100_000, number) for number in range(20)]
    world.disk.all_cached = False
    found = world.reader.batches(places, True)
    assert [bytes(batch) for batch in found] == [world.bytes_at(place) for place in places]
    assert announced == [(place.size, place.position) for place in places]


def test_no_more_is_asked_for_ahead_than_the_disk_gives_at_once(world, announced):
    places = [large(world, number * 1_000_000, number, 200_000) for number in range(4)]
    world.disk.all_cached = False
    told_before_read: list[int] = []
    world.disk.fault = lambda verb, _: told_before_read.append(len(announced)) if verb == "pread" else None
    world.reader.batches(places, True)
    assert told_before_read == [2, 2, 4, 4]


def test_nothing_is_asked_for_ahead_of_one_batch_or_of_what_must_be_in_memory(world, announced):
    one, *_ = many = [world.batch(1, number * 8_000, number) for number in range(40)]
    world.disk.all_cached = False
    world.reader.batches([one], True)
    world.disk.all_cached = True
    world.reader.batches(many, False)
    far = [world.batch(1, number * 100_000, number) for number in range(3)]
    world.reader.batches(far, True)
    assert announced == []


class CountedPlaces(list):
    """How often one of them was looked at."""

    looks = 0

    def __getitem__(self, at):
        self.looks += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("apart", [16, 400, 70_000])
def test_a_place_is_looked_at_a_few_times_however_many_there_are(world, apart):
    step = world.batch(1, 0, 0).size + apart
    places = CountedPlaces(world.batch(1, number * step, number) for number in range(1000))
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    for read in (world.reader.chunks, world.reader.joined, lambda places: world.reader.batches(places, True)):
        places.looks = 0
        read(places)
        assert places.looks < 6 * len(places)


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
    assert len(world.reader.batches([good, place, good], True)) == 1  # what is before it
    with pytest.raises(CorruptFile) as raised:
        world.reader.batches([place, good], True)
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


LARGE = LARGE_SLICE + 1000


def large(world: World, position: int, base: int, size: int = LARGE) -> Place:
    data = bytes(encode_batch([Record(0, 100, b"k", b"v" * size)], base_offset=base))
    world.put(1, position, data)
    return Place(1, base, base, position, len(data), False)


def as_bytes(chunks: list[Chunk]) -> list[bytes]:
    return [chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks]


def named(chunks: list[Chunk]) -> list[bool]:
    """Which of them were not read."""
    return [isinstance(chunk, FileSlice) for chunk in chunks]


def row_of(world: World, count: int, position: int = 1000, size: int = 20_000) -> list[Place]:
    """Batches that lie one behind the other, each smaller than a slice."""
    places: list[Place] = []
    for base in range(count):
        places.append(large(world, position, base, size))
        position += places[-1].size
    return places


def test_a_large_batch_is_read_and_checked_once_and_then_only_named(world):
    place = large(world, 1000, 0)
    (first, _), (second, _) = world.reader.chunks([place]), world.reader.chunks([place])
    assert world.reads == 1
    assert named(first + second) == [False, True]
    assert as_bytes(first) == as_bytes(second) == [world.bytes_at(place)]


def test_small_batches_in_a_row_are_one_chunk_and_named_once_they_were_checked(world):
    places = row_of(world, 5)
    everything = b"".join(map(world.bytes_at, places))
    world.reads = 0
    (first, read), (second, also_named) = world.reader.chunks(places), world.reader.chunks(places)
    assert (read, also_named, world.reads) == (5, 5, 1)
    assert named(first + second) == [False, True]
    assert as_bytes(first) == as_bytes(second) == [everything]
    part, count = world.reader.chunks(places[1:])
    assert (named(part), count, as_bytes(part)) == ([True], 4, [everything[places[0].size :]])


def test_a_row_that_is_sound_in_part_is_read_as_a_whole(world):
    places = row_of(world, 6)
    world.reader.chunks(places[:3])
    found, count = world.reader.chunks(places)
    assert (named(found), count) == ([False], 6)
    assert named(world.reader.chunks(places)[0]) == [True]


def test_of_a_row_with_one_bad_batch_what_is_before_it_is_sent(world):
    places = row_of(world, 5)
    world.put(1, places[3].position + 100, b"!")
    for read in (world.reader.chunks, world.reader.joined, world.reader.chunks):
        found, count = read(places)
        assert count == 3
        assert b"".join(as_bytes(found)) == b"".join(map(world.bytes_at, places[:3]))
        with pytest.raises(CorruptFile, match="offset 3 does not match its crc") as raised:
            read(places[3:])
        assert raised.value.position == places[3].position


def test_what_lies_between_batches_is_not_sent(world):
    row = row_of(world, 4)
    beyond = row[-1].position + row[-1].size + 32
    places = [*row, *row_of(world, 4, beyond)]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    found, count = world.reader.chunks(places)
    assert (named(found), count) == ([True, True], 8)
    world.reader.forget(1)
    world.reader.use(1, world.disk.open("/d/1"))
    read, count = world.reader.joined(places)
    assert count == 8
    assert b"".join(as_bytes(read)) == b"".join(as_bytes(found)) == b"".join(map(world.bytes_at, places))


def test_what_this_process_wrote_is_named_at_once_and_what_lies_before_it_is_not(world):
    places = [large(world, 1000, 0), large(world, 2000 + LARGE, 1)]
    world.reader.use_written(1, world.disk.open("/d/1"), places[1].position)
    found, _ = world.reader.chunks(places)
    assert named(found) == [False, True]
    assert as_bytes(found) == [world.bytes_at(place) for place in places]


def test_small_batches_alone_and_links_are_always_read(world):
    body = large(world, 1000, 0)
    places = [
        world.batch(1, 150_000, 0),
        body,
        world.link(1, 160_000, Link(1, 1, 1000, body.size, 0, 1, 0)),
        large(world, 200_000, 2),
        world.batch(1, 300_000, 3),
    ]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    found, count = world.reader.chunks(places)
    assert (named(found), count) == ([False, True, False, True, False], 5)
    assert [read_header(batch).base_offset for batch in as_bytes(found)] == [0, 0, 1, 2, 3]


def test_links_that_lead_to_more_than_fits_end_the_answer(world):
    body = large(world, 1000, 0)
    links = [world.link(1, 160_000 + at * 100, Link(at, 1, 1000, body.size, 0, 1, 0)) for at in range(3)]
    places = [*links, large(world, 200_000, 3)]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    found, count = world.reader.chunks(places, body.size + 1)
    assert (len(found), count) == (2, 2)


def test_a_batch_that_does_not_match_is_never_named(world):
    place = large(world, 1000, 0)
    world.put(1, 2000, b"!")
    for _ in range(2):
        with pytest.raises(CorruptFile):
            world.reader.chunks([place])


def test_what_was_out_of_memory_is_checked_again(world):
    places = [large(world, 1000, 0), large(world, 200_000, 1)]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    assert all(named(world.reader.chunks(places)[0]))
    world.disk.all_cached = False
    with pytest.raises(WouldBlock):
        world.reader.chunks(places[:1])
    world.disk.all_cached = True
    assert named(world.reader.chunks(places)[0]) == [False, True]
    assert named(world.reader.chunks(places)[0]) == [True, True]


def test_what_is_read_from_disk_is_doubted_until_it_was_checked_even_if_it_was_sound_before(world):
    place, beside = large(world, 1000, 0), large(world, 1_000_000, 1)
    for each in (place, beside):
        world.reader.batches([each], True)
    world.put(1, 2000, b"!")  # on the disk, which is read again
    world.disk.all_cached = False
    with pytest.raises(CorruptFile):
        world.reader.joined([place])
    world.disk.all_cached = True
    with pytest.raises(CorruptFile):
        world.reader.chunks([place])
    assert named(world.reader.chunks([beside])[0]) == [True]


def test_what_the_disk_was_asked_for_ahead_is_doubted(world):
    places = [large(world, number * 200_000, number) for number in range(4)]
    world.reader.batches(places, True)
    assert all(named(world.reader.chunks(places)[0]))
    world.disk.all_cached = False
    world.reader.joined(places[:1])  # alone: nothing else is asked for
    world.disk.all_cached = True
    assert all(named(world.reader.chunks(places)[0]))
    world.disk.all_cached = False
    _, count = world.reader.joined(places, 1)  # of the others the disk is told
    world.disk.all_cached = True
    assert (count, named(world.reader.chunks(places)[0])) == (1, [True, False, False, True])


def test_who_follows_a_reader_of_the_disk_is_sent_slices(world):
    places = [large(world, number * 100_000, number) for number in range(9)]
    for ahead in range(4, 9):
        world.disk.all_cached = False
        with pytest.raises(WouldBlock):
            world.reader.chunks(places[ahead : ahead + 1])
        world.reader.joined(places[ahead : ahead + 1])
        world.disk.all_cached = True
        world.reader.batches(places[ahead - 4 : ahead - 3], True)
        assert named(world.reader.chunks(places[ahead : ahead + 1])[0]) == [True]
    assert all(named(world.reader.chunks(places)[0]))


def test_batches_of_two_files_are_never_one_slice(world):
    first = large(world, 1000, 0)
    data = world.bytes_at(first)
    follows = first.position + first.size
    other = bytes(encode_batch([Record(0, 100, b"k", b"v" * LARGE)], base_offset=1))
    world.put(2, follows, other)
    second = Place(2, 1, 1, follows, len(other), False)
    for number in (1, 2):
        world.reader.use_written(number, world.disk.open(f"/d/{number}"), 0)
    found, count = world.reader.chunks([first, second])
    assert (named(found), count, as_bytes(found)) == ([True, True], 2, [data, other])
    small = [world.batch(1, 300_000, 2)]
    small.append(world.batch(2, small[0].position + small[0].size, 3))
    assert as_bytes(world.reader.chunks(small)[0]) == [world.bytes_at(place) for place in small]
    assert as_bytes(world.reader.joined(small)[0]) == [world.bytes_at(place) for place in small]


def test_a_slice_does_not_follow_what_already_fills_the_answer(world):
    places = [world.batch(1, 0, 0), large(world, 10_000, 1)]
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    found, count = world.reader.chunks(places, places[0].size)
    assert (named(found), count) == ([False], 1)


def test_a_reader_thread_vouches_for_what_it_checked(world):
    place = large(world, 1000, 0)
    world.reader.batches([place], True)
    assert named(world.reader.chunks([place])[0]) == [True]


def test_nothing_is_known_of_a_file_that_was_forgotten(world):
    place = large(world, 1000, 0)
    world.reader.use_written(1, world.disk.open("/d/1"), 0)
    world.reader.batches([place], True)
    world.reader.forget(1)
    assert named(world.reader.chunks([place])[0]) == [False]


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
    assert file.is_cached(5000, 4000)
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


def test_a_hole_of_one_page_is_seen_where_the_kernel_tells(tmp_path):
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    for at in range(0, 1 << 20, 4096):  # page by page, so that the kernel keeps single ones
        file.pwritev([bytes(4096)], at)
    file.fsync()
    if is_resident(file.fd, 0, 1 << 20) is None:
        pytest.skip("this kernel does not tell what is in memory")
    file.uncache(300 * 1024, 4096)
    assert [file.is_cached(*part) for part in ((300 << 10, 0), (304 << 10, 0), (4096, 304 << 10))] == [
        True,
        False,
        True,
    ]


def test_memory_is_looked_at_in_steps_where_the_kernel_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr("mainstem.kernel.log.disk.is_resident", lambda *_: None)
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.pwritev([bytes(1 << 20)], 0)
    file.fsync()
    assert (file.is_cached(1 << 20, 0), file.is_cached((1 << 20) + 1, 0)) == (True, False)
    file.uncache()
    assert not file.is_cached(1 << 20, 0)
