"""Long reads of the real disk come whole, and leave room between them for writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.kernel.log.disk import OsDisk, OsFile
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.replay import NoReplay
from mainstem.model.ports import READ_STEP

SIZE = 3 * READ_STEP + 77


@pytest.fixture
def written(tmp_path: Path) -> tuple[OsFile, bytes]:
    file, data = OsDisk().open(str(tmp_path / "file"), create=True), os.urandom(SIZE)
    file.pwritev([data], 0)
    file.read_only_what_is_asked()
    return file, data


@pytest.mark.parametrize(
    ("position", "size"),
    [(0, SIZE), (1, 2 * READ_STEP), (5, READ_STEP + 1), (5, READ_STEP), (SIZE - 9, 9)],
)
def test_a_read_of_any_length_is_whole(written: tuple[OsFile, bytes], position: int, size: int) -> None:
    file, data = written
    assert file.pread(size, position) == data[position : position + size]


def test_a_read_that_fails_names_the_file(tmp_path: Path) -> None:
    folder = OsFile(str(tmp_path), os.open(tmp_path, os.O_RDONLY))  # which no system reads as a file
    with pytest.raises(IsADirectoryError) as failed:
        folder.pread(1, 0)
    assert failed.value.filename == str(tmp_path)


def test_a_long_read_behind_the_end_gets_what_is_there(written: tuple[OsFile, bytes]) -> None:
    file, data = written
    assert file.pread(2 * SIZE, 10) == data[10:]
    assert file.pread(SIZE, SIZE) == b""


def test_the_disk_is_asked_for_a_step_at_a_time(
    written: tuple[OsFile, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, data = written
    asked: list[int] = []
    preadv = os.preadv

    def watched(fd: int, buffers: list[memoryview], position: int) -> int:
        asked.append(len(buffers[0]))
        return preadv(fd, [buffers[0][: READ_STEP - 1000]], position)  # a disk may give less

    monkeypatch.setattr(os, "preadv", watched)
    assert file.pread(SIZE, 0) == data
    assert max(asked) == READ_STEP


def test_no_memory_is_spent_on_bytes_that_the_file_does_not_have(written: tuple[OsFile, bytes]) -> None:
    file, data = written
    assert file.pread(1 << 60, 3) == data[3:]
    assert file.pread(1 << 60, 2 * SIZE) == b""


def test_a_read_of_memory_stops_at_the_first_step_that_is_not_there(
    written: tuple[OsFile, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, data = written
    asked: list[int] = []

    def watched(fd: int, buffers: list[memoryview], position: int, flags: int) -> int:
        asked.append(len(buffers[0]))
        if position >= READ_STEP:
            raise BlockingIOError
        return len(buffers[0])

    assert file.pread_cached(SIZE, 0) in (data, None)  # None: this file system cannot tell
    monkeypatch.setattr(os, "preadv", watched)
    assert file.pread_cached(SIZE, 0) is None
    assert asked == [READ_STEP, READ_STEP]


def test_a_log_reads_nothing_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither from the file that it found, nor from one that it has to open."""
    told: list[str] = []
    monkeypatch.setattr(OsFile, "read_only_what_is_asked", lambda file: told.append(Path(file.path).name))
    log = Log.open(
        OsDisk(),
        str(tmp_path),
        LogOptions(file_bytes=1 << 20, reserve_bytes=4096),
        NoReplay(),
        lambda function, argument: function(argument),
        pytest.fail,
        lambda: "log",
    )
    try:
        active = log.active_table.file_id
        assert len(told) == 1
        log.reader.forget(active)
        log.reader.file(active)
        assert told == [told[0]] * 2
    finally:
        log.close()
