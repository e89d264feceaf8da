"""Long reads of the real disk come whole, and leave room between them for writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.kernel.log.disk import READ_STEP, OsDisk, OsFile

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
