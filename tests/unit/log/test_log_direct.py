"""Rounds that go past the page cache lie on disk as others do, and are checked when they are read."""

from __future__ import annotations

import os
import queue
from pathlib import Path

import pytest

from mainstem.kernel.log.direct import LEAST_BYTES, MOST_BYTES, DirectWriter
from mainstem.kernel.log.disk import OsDisk, OsFile
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.replay import NoReplay
from mainstem.model.ports import BLOCK_BYTES, Buffer
from mainstem.model.records import Record, decode_records, encode_batch
from mainstem.model.slices import FileSlice

CAPACITY = 16 << 20
EVERYTHING = 1 << 62


@pytest.fixture
def file(tmp_path: Path) -> OsFile:
    opened = OsDisk().open(str(tmp_path / "journal"), create=True)
    opened.allocate(CAPACITY)
    if not opened.write_direct(memoryview(bytearray(0)), 0):
        pytest.skip("the file system of the temporary folder has no direct writes")
    return opened


def test_rounds_lie_one_behind_the_other_wherever_blocks_begin(file: OsFile) -> None:
    writer, expected = DirectWriter(), bytearray(b"head")
    file.pwritev([b"head"], 0)
    for number, size in enumerate((LEAST_BYTES, LEAST_BYTES + 1, LEAST_BYTES + 4095, LEAST_BYTES + 77)):
        chunks: list[Buffer] = [bytes([number + 1]) * 100, memoryview(os.urandom(size - 100))]
        assert writer.write(file, 1, chunks, len(expected), size, CAPACITY)
        expected += b"".join(chunks)
    assert file.pread(len(expected), 0) == expected
    assert not any(file.pread(2 * BLOCK_BYTES, len(expected)))


def test_what_went_another_way_in_between_stays(file: OsFile) -> None:
    writer, first, small, last = DirectWriter(), b"a" * LEAST_BYTES, b"b" * 10, b"c" * LEAST_BYTES
    file.pwritev([b"x" * 5], 0)
    assert writer.write(file, 1, [first], 5, len(first), CAPACITY)
    file.write_through([small], 5 + len(first))
    assert writer.write(file, 1, [last], 15 + len(first), len(last), CAPACITY)
    assert file.pread(15 + 2 * LEAST_BYTES, 0) == b"x" * 5 + first + small + last


def test_a_file_begins_with_what_it_holds_itself(file: OsFile, tmp_path: Path) -> None:
    other = OsDisk().open(str(tmp_path / "next"), create=True)
    other.allocate(CAPACITY)
    writer, data = DirectWriter(), b"a" * LEAST_BYTES
    assert writer.write(file, 1, [data], 0, len(data), CAPACITY)
    assert writer.write(file, 1, [data, b"bcd"], len(data), len(data) + 3, CAPACITY)
    end = 2 * LEAST_BYTES + 3
    other.pwritev([b"xyz"], end - 3)
    assert writer.write(other, 2, [data], end, len(data), CAPACITY)
    assert other.pread(3 + len(data), end - 3) == b"xyz" + data


def test_rounds_that_do_not_fit_go_another_way(file: OsFile) -> None:
    writer = DirectWriter()
    assert not writer.write(file, 1, [b"small"], 0, 5, CAPACITY)
    assert not writer.write(file, 1, [bytes(MOST_BYTES + 1)], 0, MOST_BYTES + 1, CAPACITY)
    assert not writer.write(file, 1, [bytes(LEAST_BYTES)], 10, LEAST_BYTES, LEAST_BYTES + 4000)
    assert not any(file.pread(LEAST_BYTES, 0))


def test_what_nobody_reads_goes_past_the_page_cache_until_somebody_does(file: OsFile, tmp_path: Path) -> None:
    log, rounds = open_log(tmp_path / "data")
    directs: list[bool] = []
    log.on_synced = lambda done: directs.append(done.direct)
    values = [bytes([number]) * LEAST_BYTES for number in range(10)]
    for offset, value in enumerate(values):
        if offset == 8:
            assert log.read(1, 7, 1, EVERYTHING, wait=True)
        batch = encode_batch([Record(0, 1, None, value)], base_offset=offset)
        log.append_batch(1, batch, offset, offset, 1, None)
        log.run_pending()
        while not rounds.empty():
            function, argument = rounds.get()
            function(argument)
    # A megabyte stays in memory; then it is clear that nobody wants it.
    assert directs == [False] * 4 + [True] * 4 + [False] * 2
    assert read_values(log) == values
    log.close()
    again, _ = open_log(tmp_path / "data")
    assert read_values(again) == values
    again.close()


def test_what_went_past_the_page_cache_is_not_sent_unchecked(file: OsFile, tmp_path: Path) -> None:
    log, rounds = open_log(tmp_path / "data")
    for offset in range(6):
        batch = encode_batch([Record(0, 1, None, bytes(LEAST_BYTES))], base_offset=offset)
        log.append_batch(1, batch, offset, offset, 1, None)
        log.run_pending()
        while not rounds.empty():
            function, argument = rounds.get()
            function(argument)
    # As a consumer on another thread would: the pages are in memory now, and came from the disk.
    place = log.places(1, 5, 1, EVERYTHING)[0]
    log.reader.file(place.file_id).pread(place.size, place.position)
    assert not isinstance(log.chunks(1, 5, 1, EVERYTHING)[0][0], FileSlice)
    assert isinstance(log.chunks(1, 5, 1, EVERYTHING)[0][0], FileSlice), "it was checked once"
    log.close()


def open_log(folder: Path) -> tuple[Log, queue.SimpleQueue]:
    rounds: queue.SimpleQueue = queue.SimpleQueue()
    failures: list[BaseException] = []
    options = LogOptions(file_bytes=8 << 20, reserve_bytes=4096, cached_bytes=1 << 20)
    OsDisk().make_folder(str(folder))
    log = Log.open(
        OsDisk(),
        str(folder),
        options,
        NoReplay(),
        lambda function, argument: rounds.put((function, argument)),
        failures.append,
        lambda: "log",
    )
    return log, rounds


def read_values(log: Log) -> list[bytes | None]:
    batches = log.read(1, 0, EVERYTHING, EVERYTHING, wait=True)
    return [record.value for batch in batches for record in decode_records(batch)]
