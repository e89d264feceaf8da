"""Large batches are copied into the next round when they come; on disk, nobody can tell."""

from __future__ import annotations

import mmap
import queue
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mainstem.kernel.log.disk import OsDisk, OsFile
from mainstem.kernel.log.journal import Round
from mainstem.kernel.log.layout import FRAME_HEAD_BYTES, ROUND_FRAME_BYTES
from mainstem.kernel.log.log import Log, LogOptions
from mainstem.kernel.log.replay import NoReplay
from mainstem.kernel.log.stage import LEAST_BATCH_BYTES, MOST_BYTES, MOST_STAGES, Stage, Stages
from mainstem.model.ports import BLOCK_BYTES
from mainstem.model.records import Record, decode_records, encode_batch

EVERYTHING = 1 << 62
LARGE, SMALL = 10 * LEAST_BATCH_BYTES, 100


@pytest.fixture(autouse=True)
def disk_with_direct_writes(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "try"), create=True)
    if not file.write_direct(memoryview(bytearray(0)), 0):
        pytest.skip("the file system of the temporary folder has no direct writes")


class Hand:
    """A log whose rounds are told when the test says so."""

    def __init__(self, folder: Path, file_bytes: int = 64 << 20) -> None:
        OsDisk().make_folder(str(folder))
        self._told: queue.SimpleQueue[tuple[Callable[[Round], None], Round]] = queue.SimpleQueue()
        self.failures: list[BaseException] = []
        options = LogOptions(file_bytes=file_bytes, reserve_bytes=4096, cached_bytes=0)
        self.log = Log.open(
            OsDisk(),
            str(folder),
            options,
            NoReplay(),
            lambda function, argument: self._told.put((function, argument)),
            self.failures.append,
            lambda: "log",
        )
        self.staged: list[bool] = []  # of each round
        self.direct: list[bool] = []
        self.log.on_synced = self._note
        self.values: list[bytes] = []

    def _note(self, done: Round) -> None:
        self.staged.append(done.stage is not None)
        self.direct.append(done.direct)

    def append(self, size: int, *, early: bool = False) -> bool:
        """Whether the batch was copied; if so, its memory is filled with something else at once."""
        offset = len(self.values)
        value = bytes([offset % 251]) * size
        self.values.append(value)
        batch = encode_batch([Record(0, 1, None, value)], base_offset=offset)
        copied = self.log.append_batch(1, memoryview(batch), offset, offset, 1, None, early)
        if copied:
            batch[:] = bytes(len(batch))
        return copied

    def write(self) -> None:
        self.log.run_pending()

    def tell(self) -> None:
        while not self._told.empty():
            function, argument = self._told.get()
            function(argument)

    def wait(self) -> None:
        """Until the writer's thread has written all."""
        while self.log.settled < len(self.values):
            self.tell()

    def read(self) -> list[bytes | None]:
        batches = self.log.read(1, 0, EVERYTHING, EVERYTHING, wait=True)
        return [record.value for batch in batches for record in decode_records(batch)]

    def check(self, folder: Path) -> None:
        """All is there, now and after a restart."""
        self.write()
        self.tell()
        assert self.read() == self.values
        self.log.close()
        assert not self.failures
        again = Hand(folder)
        assert again.read() == self.values
        again.log.close()


def test_a_batch_lies_behind_room_for_its_head(tmp_path: Path) -> None:
    stage = Stage()
    stage.begin(3 * BLOCK_BYTES + 5)
    first, second = b"a" * LEAST_BATCH_BYTES, b"b" * LEAST_BATCH_BYTES
    assert stage.put(first) == first
    assert stage.put(second) == second
    begin = 5 + ROUND_FRAME_BYTES + FRAME_HEAD_BYTES
    assert stage.buffer[begin : begin + len(first)] == first
    begin += len(first) + FRAME_HEAD_BYTES
    assert stage.buffer[begin : begin + len(second)] == second
    assert (stage.count, stage.size) == (2, begin + len(second) - 5)


def test_what_begins_with_a_small_batch_is_not_taken_nor_what_is_too_large() -> None:
    stage = Stage()
    assert stage.put(bytes(LEAST_BATCH_BYTES - 1)) is None
    assert stage.put(bytes(MOST_BYTES)) is None
    assert stage.put(bytes(MOST_BYTES - ROUND_FRAME_BYTES - 2 * FRAME_HEAD_BYTES - 1)) is not None
    assert stage.put(bytes(2)) is None
    assert stage.put(bytes(1)) is not None, "behind a large one, small ones are welcome"
    assert (stage.count, stage.end) == (2, MOST_BYTES)


def test_there_are_only_so_many_stages_and_they_are_used_again() -> None:
    stages = Stages()
    taken = [stages.take(BLOCK_BYTES + number) for number in range(MOST_STAGES)]
    assert [stage.lead for stage in taken if stage] == list(range(MOST_STAGES))
    assert stages.take(0) is None
    last = taken[-1]
    assert last is not None
    last.put(bytes(LEAST_BATCH_BYTES))
    stages.give_back(last)
    assert stages.take(7) is last
    assert (last.lead, last.count, last.plain) == (7, 0, True)


def test_without_memory_for_a_stage_rounds_go_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_left(*_: object, **__: object) -> object:
        raise OSError(12, "Cannot allocate memory")

    hand = Hand(tmp_path / "data")
    with monkeypatch.context() as patched:
        patched.setattr(mmap, "mmap", nothing_left)
        for _ in range(3):
            assert not hand.append(LARGE)
            hand.write()
            hand.tell()
    assert hand.staged == hand.direct == [False] * 3
    hand.check(tmp_path / "data")


def test_the_memory_of_a_large_batch_is_its_owners_again_at_once(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    copied = []
    for _ in range(5):
        copied.append(hand.append(LARGE))
        copied.append(hand.append(LARGE))
        hand.write()
        hand.tell()
    # Where the second round begins is known once the first one is taken.
    assert copied == [False] * 2 + [True] * 8
    assert hand.staged == [False] + [True] * 4
    assert hand.direct == [True] * 5
    hand.check(tmp_path / "data")


def test_all_that_comes_behind_a_large_batch_is_in_its_round(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    hand.append(LARGE)
    hand.write()
    assert hand.append(LARGE)
    assert hand.append(SMALL)
    hand.log.append_delta(3, b"what happened", None)
    assert hand.append(LARGE)
    hand.write()
    hand.tell()
    assert hand.staged == [False, True]
    assert hand.direct == [True, True]
    hand.check(tmp_path / "data")


def test_what_need_not_be_on_disk_ends_the_round(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    hand.append(LARGE)
    hand.write()
    assert hand.append(LARGE)
    assert not hand.append(LARGE, early=True)
    assert not hand.append(LARGE), "it would come before the other"
    hand.write()
    hand.tell()
    assert hand.staged == [False, True, False, False]
    assert hand.direct == [True, True, False, False], "the last one syncs all before it"
    hand.append(LARGE)
    hand.write()
    assert hand.append(LARGE), "and then it goes on as before"
    hand.check(tmp_path / "data")


def test_a_full_stage_is_followed_by_the_next(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    hand.append(LARGE)
    hand.write()
    copied = [hand.append(MOST_BYTES // 3) for _ in range(2 * MOST_STAGES)]
    assert all(copied)
    assert not hand.append(MOST_BYTES // 3), "all are full"
    hand.write()
    hand.tell()
    assert hand.staged == [False] + [True] * MOST_STAGES + [False]
    assert hand.direct == [True] * (MOST_STAGES + 2)
    hand.check(tmp_path / "data")


def test_what_came_while_a_stage_was_opened_moves_it(tmp_path: Path) -> None:
    """The owner sees that none is open; the writer opens one; the owner appends; then it sees the stage."""
    hand = Hand(tmp_path / "data")
    writer = hand.log._writer
    unread, late = writer.is_unread, [SMALL]

    def is_unread() -> bool:
        if late:  # the writer has seen that nothing is pending
            hand.append(late.pop())
        return unread()

    writer.is_unread = is_unread
    hand.append(LARGE)
    writer._write_round()
    assert hand.append(LARGE)
    hand.write()
    hand.tell()
    assert hand.staged == [False, False, True]
    hand.check(tmp_path / "data")


def test_what_follows_a_small_batch_alone_is_staged_again(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    for _ in range(2 * MOST_STAGES):
        hand.append(SMALL)
        hand.write()
        hand.tell()
    assert hand.append(LARGE)
    hand.check(tmp_path / "data")


def test_a_round_that_does_not_fit_its_file_goes_to_the_next(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data", file_bytes=3 << 20)
    for _ in range(40):
        hand.append(LARGE + 77)
        hand.write()
        hand.tell()
    assert hand.staged.count(True) > 20
    assert hand.direct.count(True) > 20
    assert len(hand.log.sealed) > 3
    hand.check(tmp_path / "data")


def test_rounds_that_are_not_told_yet_keep_their_memory(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    hand.append(LARGE)
    hand.write()
    copied = []
    for _ in range(MOST_STAGES + 2):
        copied.append(hand.append(LARGE))
        hand.write()
    assert copied == [True] * MOST_STAGES + [False] * 2
    hand.tell()
    hand.append(LARGE)
    hand.write()
    assert hand.append(LARGE), "those that were told are used again"
    hand.check(tmp_path / "data")


def test_once_somebody_reads_rounds_stay_in_memory(tmp_path: Path) -> None:
    hand = Hand(tmp_path / "data")
    hand.append(LARGE)
    hand.write()
    assert hand.append(LARGE)
    hand.log._writer.is_unread = lambda: False
    hand.write()
    hand.tell()
    assert hand.staged == [False, True]
    assert hand.direct[-1] is False
    assert not hand.append(LARGE)
    hand.check(tmp_path / "data")


def test_a_disk_without_direct_writes_is_asked_once_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(file: OsFile, _blocks: object, _position: int) -> bool:
        asked.append(file.path)
        return False

    monkeypatch.setattr(OsFile, "write_direct", refuse)
    hand = Hand(tmp_path / "data", file_bytes=3 << 20)
    for _ in range(40):
        hand.append(LARGE)
        hand.write()
        hand.tell()
    assert not any(hand.direct)
    assert len(asked) == len(set(asked)) > 3
    hand.check(tmp_path / "data")


@pytest.mark.parametrize("seed", range(5))
def test_while_the_writer_is_at_work_all_comes_in_its_order(seed: int, tmp_path: Path) -> None:
    hand, chance = Hand(tmp_path / "data", file_bytes=8 << 20), random.Random(seed)
    hand.log.start()
    for _ in range(300):
        hand.append(chance.choice([SMALL, LEAST_BATCH_BYTES, LARGE, LARGE + 1, LARGE + 4001]))
        if chance.random() < 0.1:
            hand.tell()
        if chance.random() < 0.1:
            hand.wait()
    hand.wait()
    assert any(staged and direct for staged, direct in zip(hand.staged, hand.direct, strict=True))
    hand.check(tmp_path / "data")
