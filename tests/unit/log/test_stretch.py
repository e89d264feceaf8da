"""What a reader is handed on its way ahead: just what the log would find for it, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.sound import LARGE_SLICE
from mainstem.kernel.log.stretch import AHEAD_BYTES, Stretch, find_stretch
from mainstem.model.errors import CorruptFile
from mainstem.model.records import Record, encode_batch
from mainstem.model.slices import Chunk, FileSlice
from mainstem.testing.log_by_hand import LogByHand
from mainstem.testing.log_model import EVERYTHING
from mainstem.testing.memory_disk import MemoryDisk

LARGE, SMALL = LARGE_SLICE + 1000, 100


def log_of(sizes: Sequence[int], file_bytes: int = 64 << 20) -> tuple[MemoryDisk, Log]:
    """One batch of one record for each size."""
    disk = MemoryDisk("/data")
    log = LogByHand(disk, "/data", LogOptions(file_bytes=file_bytes, reserve_bytes=4096)).log
    for offset, size in enumerate(sizes):
        batch = encode_batch([Record(0, 1000, None, bytes([offset]) * size)], base_offset=offset)
        log.append_batch(1, batch, offset, offset, 1000, None)
        log.run_pending()
    return disk, log


def bytes_of(chunks: Sequence[Chunk]) -> bytes:
    return b"".join(chunk.read() if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks)


def found(log: Log, offset: int = 0, upto: int = EVERYTHING) -> Stretch:
    stretch = find_stretch(log, 1, offset, upto)
    assert stretch is not None
    return stretch


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from([LARGE, LARGE, LARGE, 3 * LARGE, SMALL]), min_size=1, max_size=12),
    limits=st.lists(
        st.sampled_from([1, LARGE, 2 * LARGE, 2 * LARGE + 500, 9 * LARGE]), min_size=1, max_size=8
    ),
    start=st.integers(0, 11),
    unseen=st.integers(0, 3),
    file_bytes=st.sampled_from([6 * LARGE, 64 << 20]),
)
def test_whoever_goes_on_gets_what_the_log_would_find(sizes, limits, start, unseen, file_bytes):
    _, log = log_of(sizes, file_bytes)
    upto = max(len(sizes) - unseen, 0)
    stretch = find_stretch(log, 1, start, upto)
    offset = start
    for limit in limits:
        taken = stretch.take(offset, limit, upto) if stretch is not None else []
        chunks, end = log.chunks(1, offset, limit, upto) if offset < upto else ([], 0)
        if taken:
            assert stretch is not None
            assert (bytes_of(taken), stretch.next_offset) == (bytes_of(chunks), end)
            assert all(isinstance(chunk, FileSlice) for chunk in taken)
        offset = end or offset


def test_there_is_none_where_the_first_batch_has_to_be_read():
    _, log = log_of([SMALL, LARGE])
    assert find_stretch(log, 1, 0, EVERYTHING) is None
    assert find_stretch(log, 1, 2, EVERYTHING) is None  # nothing is there
    assert len(found(log, 1)) == 1


def test_another_offset_than_the_next_is_not_answered():
    _, log = log_of([LARGE] * 4)
    stretch = found(log)
    assert stretch.take(1, 1, EVERYTHING) == []
    assert stretch.take(0, 1, EVERYTHING)
    assert stretch.take(0, 1, EVERYTHING) == []
    assert stretch.take(1, 1, EVERYTHING)


def test_bytes_that_are_doubted_have_to_be_read_again_and_others_need_not():
    _, log = log_of([LARGE] * 4)
    stretch = found(log)
    log.reader.distrust(99)  # another file
    assert stretch.take(0, 1, EVERYTHING)
    log.reader.distrust(log.places(1, 0, 1, EVERYTHING)[0].file_id)
    assert stretch.take(1, 1, EVERYTHING) == []


def test_an_answer_that_doubt_would_cut_is_left_to_the_log():
    _, log = log_of([LARGE] * 4)
    stretch = found(log)
    first, second = log.places(1, 0, 2 * LARGE + 500, EVERYTHING)
    log.reader._sound.doubt(first.file_id, second.position, second.position + second.size)
    assert stretch.take(0, 2 * LARGE + 500, EVERYTHING) == []
    assert stretch.take(0, 1, EVERYTHING)


def test_what_cannot_be_looked_at_ends_it_and_is_told_to_whoever_gets_there():
    _, log = log_of([1 << 20] * 4)
    places = type(log).places

    class Damaged:
        """The log, but for an index that cannot be read from the third batch on."""

        reader = log.reader

        def places(self, partition: int, offset: int, max_bytes: int, upto: int):
            if offset >= 2:
                raise CorruptFile("7.places", 4096, "a block does not match its crc")
            return places(log, partition, offset, max_bytes, upto)

    stretch = find_stretch(Damaged(), 1, 0, EVERYTHING)  # type: ignore[arg-type]
    assert stretch is not None
    assert len(stretch) == 2


def test_a_merge_ends_it():
    """It may leave a file in place for the links that lead into it, whose batches are not read there."""
    _, log = log_of([LARGE] * 2)
    stretch = found(log)
    assert stretch.take(0, 1, EVERYTHING)
    log.replace_sealed(set(), [])
    assert stretch.take(1, 1, EVERYTHING) == []


def test_bytes_that_left_memory_are_not_waited_for_nor_believed_when_they_are_back():
    disk, log = log_of([LARGE] * 2)
    stretch = found(log)
    disk.all_cached = False
    assert stretch.take(0, 1, EVERYTHING) == []
    disk.all_cached = True
    assert stretch.take(0, 1, EVERYTHING) == []
    assert find_stretch(log, 1, 0, EVERYTHING) is None
    log.read(1, 0, 1, EVERYTHING, wait=True)
    assert found(log).take(0, 1, EVERYTHING)


def test_batches_with_those_of_others_between_them_are_none():
    """Whether they are in memory would be asked of all that lies between, too."""
    _, log = log_of([LARGE] * 2)
    other = encode_batch([Record(0, 1000, None, bytes(LARGE))])
    log.append_batch(2, other, 0, 0, 1000, None)
    log.run_pending()
    batch = encode_batch([Record(0, 1000, None, bytes(LARGE))], base_offset=2)
    log.append_batch(1, batch, 2, 2, 1000, None)
    log.run_pending()
    assert len(found(log)) == 2
    assert len(found(log, 2)) == 1


def test_a_file_that_is_gone_is_not_opened_again():
    _, log = log_of([LARGE] * 2)
    stretch = found(log)
    log.reader.forget(log.places(1, 0, 1, EVERYTHING)[0].file_id)
    assert stretch.take(0, 1, EVERYTHING) == []


def test_no_more_than_a_part_of_what_lies_ahead_is_looked_at():
    _, log = log_of([1 << 20] * 12)
    assert len(found(log)) == AHEAD_BYTES >> 20
