"""A disk that fails ends the log before it promises anything more; a disk that is full does not."""

from __future__ import annotations

import errno
import os

import pytest

from mainstem.kernel.log.log import LogOptions
from mainstem.kernel.log.manifest import SPARE_BYTES
from mainstem.model.errors import DiskFull, StorageFailed
from mainstem.testing.log_model import LogModel, ModelledLog
from mainstem.testing.memory_disk import MemoryDisk

FOLDER = "/data"
OPTIONS = LogOptions(file_bytes=4096, file_frames=1000, reserve_bytes=1024)
SYNCS = ("fsync", "fdatasync", "sync_folder")


class FailOnce:
    """The n-th operation of some kinds fails; `failed` tells whether it came to that."""

    def __init__(self, verbs: tuple[str, ...], number: int, code: int = errno.EIO) -> None:
        self._verbs = verbs
        self._left = number
        self._code = code
        self.failed = False

    def __call__(self, verb: str, path: str) -> None:
        if verb in self._verbs:
            if self._left == 0:
                self.failed = True
                self._left = -1
                raise OSError(self._code, os.strerror(self._code), path)
            self._left -= 1


def use(log: ModelledLog) -> None:
    log.log.prepare()
    for number in range(12):
        log.append_batch(number % 3, value_bytes=900)
        log.turn()
        if number == 6 and not log.hand.failures:
            log.snapshot()


def acked_at_failure(disk: MemoryDisk, fault: FailOnce) -> tuple[LogModel, int | None]:
    """Run until the end; what was acknowledged, and how much of it when the disk failed."""
    model = LogModel()
    when: list[int] = []

    def watch(verb: str, path: str) -> None:
        try:
            fault(verb, path)
        except OSError:
            when.append(model.acked)
            raise

    disk.fault = watch
    try:
        log = ModelledLog(disk, FOLDER, OPTIONS, model)
        use(log)
    except (OSError, StorageFailed):
        # Opening the log or taking a snapshot failed: the caller sees the error itself.
        return model, None
    assert not fault.failed or log.hand.failures, "nobody was told that the disk failed"
    return model, when[0] if when else None


@pytest.mark.parametrize("verbs", [SYNCS, ("pwritev",)], ids=["sync", "write"])
def test_nothing_is_acknowledged_after_the_disk_has_failed(verbs):
    number = 0
    while True:
        disk = MemoryDisk(FOLDER)
        fault = FailOnce(verbs, number)
        model, acked = acked_at_failure(disk, fault)
        if not fault.failed:
            break
        assert acked is None or model.acked == acked
        disk.fault = None
        ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, model)
        number += 1
    assert number > 20


def test_a_write_error_in_the_background_stops_the_log_too():
    disk = MemoryDisk(FOLDER)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    log.log.prepare()
    disk.fault = FailOnce(("fsync",), 0)
    log.hand.housekeeper.run()
    assert [type(error) for error in log.hand.failures] == [OSError]
    log.append_delta(1, b"too late")
    log.turn()
    assert log.model.acked == 0


# --- a full disk -------------------------------------------------------------------------------


def full_disk() -> tuple[MemoryDisk, ModelledLog]:
    """A log whose active file is filled up to the reserve, on a disk without room for another one."""
    disk = MemoryDisk(FOLDER, space_bytes=2 * 4096 + 2048 + SPARE_BYTES)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    log.log.prepare()
    log.turn()
    for _ in range(100):
        try:
            log.log.check_room(600)
        except DiskFull:
            return disk, log
        log.append_batch(1, value_bytes=500)
        log.turn()
    raise AssertionError("the disk never filled up")


def test_a_full_disk_refuses_batches_and_admits_what_frees_space():
    disk, log = full_disk()
    assert not log.hand.failures
    admitted = 0
    for _ in range(100):
        try:
            log.log.check_room(20, essential=True)
        except DiskFull:
            break
        log.append_delta(2, b"an acknowledgement...")
        log.turn()
        admitted += 1
    assert 5 <= admitted < 100
    assert not log.hand.failures
    log.check_reads()
    ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, log.model)


def test_writes_resume_when_space_is_back():
    disk, log = full_disk()
    disk.space_bytes *= 4
    with pytest.raises(DiskFull):
        log.log.check_room(600)  # it is this attempt that has the next file made
    log.turn()
    for _ in range(5):
        log.log.check_room(600)
        log.append_batch(1, value_bytes=500)
        log.turn()
    assert not log.hand.failures
    ModelledLog(disk.after_power_cut(), FOLDER, OPTIONS, log.model)


def test_a_full_disk_can_be_emptied_and_opened_again():
    disk, log = full_disk()
    first = log.log.files.manifest.journals[0].file_id
    disk = disk.after_power_cut(disk.pending)
    disk.space_bytes = 0
    again = ModelledLog(disk, FOLDER, OPTIONS, log.model)
    with pytest.raises(DiskFull):
        again.log.check_room(600)
    again.log.files.drop({first})
    assert not [name for name in again.hand.disk.list(f"{FOLDER}/files") if name.startswith(f"{first:010d}")]


def test_a_batch_larger_than_a_file_is_refused_if_the_disk_cannot_hold_it():
    _, log = full_disk()
    with pytest.raises(DiskFull):
        log.log.check_room(50_000)


def test_a_slow_housekeeper_is_not_mistaken_for_a_full_disk():
    disk = MemoryDisk(FOLDER)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    for _ in range(20):
        log.log.check_room(600)
        log.append_batch(1, value_bytes=500)
        log.log.run_pending()
    assert not log.hand.failures


def test_an_error_while_a_file_is_made_leaves_no_file_behind():
    disk = MemoryDisk(FOLDER, space_bytes=4096 + 2 * SPARE_BYTES)
    log = ModelledLog(disk, FOLDER, OPTIONS)
    disk.space_bytes = 4096 + SPARE_BYTES + 1000
    log.log.prepare()
    log.turn()
    assert disk.list(f"{FOLDER}/files") == ["0000000001.journal"]
    assert not log.hand.failures
