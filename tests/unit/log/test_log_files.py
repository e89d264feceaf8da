"""The manifest, snapshots, and the files that they name."""

from __future__ import annotations

import errno
import threading

import pytest
from msgspec.structs import replace

from mainstem.kernel.log.files import Files
from mainstem.kernel.log.layout import FILE_HEAD
from mainstem.kernel.log.manifest import (
    JournalEntry,
    Manifest,
    RunEntry,
    SnapshotEntry,
    read_manifest,
    write_manifest,
)
from mainstem.kernel.log.snapshot import SnapshotWriter, read_snapshot
from mainstem.model.errors import CorruptFile, StorageFailed
from mainstem.testing.memory_disk import MemoryDisk

FOLDER = "/data"


def new_disk() -> MemoryDisk:
    disk = MemoryDisk(FOLDER)
    disk.make_folder(f"{FOLDER}/files")
    disk.make_folder(f"{FOLDER}/snapshots")
    disk.sync_folder(FOLDER)
    return disk


def new_files(disk: MemoryDisk, file_bytes: int = 4096) -> Files:
    manifest = Manifest(log_id="log", next_file_id=1)
    write_manifest(disk, FOLDER, manifest)
    return Files(disk, FOLDER, manifest, file_bytes)


# --- manifest ----------------------------------------------------------------------------------


def test_a_manifest_comes_back_as_it_was_written():
    disk = new_disk()
    manifest = Manifest(
        "log",
        9,
        4,
        (RunEntry(1, 100, 1),),
        (JournalEntry(2, 50), JournalEntry(3)),
        (SnapshotEntry(3, 10, 2, 40),),
    )
    write_manifest(disk, FOLDER, Manifest("a much longer name than the other " * 20, 1))
    write_manifest(disk, FOLDER, manifest)
    assert read_manifest(disk, FOLDER) == manifest


def test_a_folder_that_never_held_a_log_has_no_manifest():
    assert read_manifest(MemoryDisk(FOLDER), FOLDER) is None
    assert read_manifest(new_disk(), FOLDER) is None


@pytest.mark.parametrize("name", ["files/0000000001.journal", "snapshots/0000000001.state"])
def test_files_without_a_manifest_are_damage(name):
    disk = new_disk()
    disk.open(f"{FOLDER}/{name}", create=True)
    with pytest.raises(CorruptFile, match="the manifest is missing"):
        read_manifest(disk, FOLDER)


def test_a_manifest_whose_folder_cannot_be_synced_is_neither_old_nor_new():
    disk = new_disk()
    files = new_files(disk)

    def fault(verb: str, path: str) -> None:
        if verb == "sync_folder" and path == FOLDER:
            raise OSError(5, "Input/output error")

    disk.fault = fault
    with pytest.raises(StorageFailed, match="could not be synced"):
        files.change(lambda now: now)


# --- snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_comes_back_in_order_and_has_its_name_only_when_it_is_whole():
    disk = new_disk()
    path = f"{FOLDER}/snapshots/0000000007.state"
    writer = SnapshotWriter(disk, path, 7)
    writer.write([(1, b"one"), (2, b"")])
    writer.write([])
    writer.write([(1, b"three" * 100)])
    assert not disk.exists(path)
    size = writer.finish()
    found = list(read_snapshot(disk.after_power_cut(), path, 7, size))
    assert found == [(1, b"one"), (2, b""), (1, b"three" * 100)]


def test_a_snapshot_that_is_missing_or_another_one_is_named():
    disk = new_disk()
    path = f"{FOLDER}/snapshots/0000000007.state"
    with pytest.raises(CorruptFile, match="missing"):
        list(read_snapshot(disk, path, 7, 100))
    size = SnapshotWriter(disk, path, 7).finish()
    for number, expected_size in [(8, size), (7, size + 1)]:
        with pytest.raises(CorruptFile, match="expected snapshot"):
            list(read_snapshot(disk, path, number, expected_size))


# --- files -------------------------------------------------------------------------------------


def test_a_prepared_file_is_taken_once_and_named_before_that():
    disk = new_disk()
    files = new_files(disk)
    assert files.next_capacity == 0
    files.prepare_next(zero=True)
    files.prepare_next(zero=True)
    assert files.next_capacity == 4096
    assert read_manifest(disk.after_power_cut(), FOLDER).journals == (JournalEntry(1, capacity=4096),)
    taken = files.take_next()
    assert (taken.file_id, taken.position, taken.capacity) == (1, FILE_HEAD.size, 4096)
    assert files.next_capacity == 0
    assert files.take_next().file_id == 2


def test_a_prepared_file_keeps_its_head_when_it_is_filled_with_zeros():
    disk = new_disk()
    files = new_files(disk, file_bytes=(2 << 20) + 777)
    files.prepare_next(zero=True)
    file = files.take_next().file
    assert file.size() == (2 << 20) + 777
    assert file.pread(8, 0) == b"MAINSTEM"
    assert not any(file.pread(file.size(), FILE_HEAD.size))


def test_a_writer_in_a_hurry_does_not_wait_for_zeros():
    disk = new_disk()
    files = new_files(disk, file_bytes=8 << 20)
    filled = []

    def fault(verb: str, path: str) -> None:
        if verb == "fdatasync":
            filled.append(path)
            files._hurry.set()  # as take_next does on the writer's thread

    disk.fault = fault
    files.prepare_next(zero=True)
    assert len(filled) == 1
    assert files.take_next().capacity == 8 << 20


def test_a_sealed_file_gives_back_what_it_does_not_use():
    disk = new_disk()
    files = new_files(disk)
    files.take_next()
    files.seal(1, 500)
    assert files.manifest.journals == (JournalEntry(1, 500),)
    assert files.open_journal(1).size() == 500


def test_a_file_that_is_finished_while_it_is_copied_is_cut_afterwards():
    disk = new_disk()
    files = new_files(disk)
    files.take_next()
    with files.pinned() as seen:
        files.seal(1, 500)
        assert seen.journals == (JournalEntry(1, capacity=4096),)
        assert files.manifest.journals == (JournalEntry(1, 500),)
        assert files.open_journal(1).size() == 4096
    assert files.open_journal(1).size() == 500


def test_the_owner_does_not_wait_while_a_manifest_is_written():
    disk = new_disk()
    files = new_files(disk)
    files.take_next()
    went_on: list[int] = []

    def owner() -> None:
        with files.pinned() as seen:
            went_on.append(len(seen.journals))
        went_on.extend(files.new_file_ids(2))

    def fault(verb: str, path: str) -> None:
        if verb == "fsync" and "MANIFEST" in path and not went_on:
            thread = threading.Thread(target=owner, daemon=True)
            thread.start()
            thread.join(60)

    disk.fault = fault
    changed = files.change(lambda now: replace(now, log_id="new"))
    assert went_on == [1, 2, 3]
    assert changed.log_id == "new"
    assert files.new_file_ids(1) == [4]  # the change does not take back what was given out meanwhile


def test_a_manifest_that_cannot_be_synced_is_a_failed_disk_and_want_of_space_or_of_descriptors_is_none():
    disk = new_disk()
    files = new_files(disk)
    before = files.manifest
    cases = (errno.ENOSPC, OSError), (errno.EMFILE, OSError), (errno.EIO, StorageFailed)
    for code, expected in cases:

        def fault(verb: str, path: str, code: int = code) -> None:
            if verb == "fsync":
                raise OSError(code, "injected")

        disk.fault = fault
        with pytest.raises(expected):
            files.change(lambda now: replace(now, log_id="new"))
        assert files.manifest == before


def test_a_snapshot_that_cannot_be_synced_is_a_failed_disk():
    disk = new_disk()
    writer = SnapshotWriter(disk, f"{FOLDER}/snapshots/0000000001.state", 1)

    def fault(verb: str, path: str) -> None:
        if verb == "fsync":
            raise OSError(errno.EIO, "injected")

    disk.fault = fault
    with pytest.raises(StorageFailed, match="snapshot"):
        writer.finish()


def test_dropped_files_are_forgotten_before_they_are_deleted_and_others_stay():
    disk = new_disk()
    files = new_files(disk)
    files.take_next()
    files.take_next()
    disk.open(f"{FOLDER}/files/0000000009.run", create=True)  # somebody is just making it
    files.drop({1})
    assert [entry.file_id for entry in files.manifest.journals] == [2]
    assert disk.list(f"{FOLDER}/files") == ["0000000002.journal", "0000000009.run"]
    # A power cut in between leaves at most a file that nobody names.
    assert [e.file_id for e in read_manifest(disk.after_power_cut(), FOLDER).journals] == [2]


def test_leftovers_are_removed_and_strangers_are_not():
    disk = new_disk()
    files = new_files(disk)
    files.take_next()
    for name in ("files/0000000009.run", "files/0000000001.places.new", "snapshots/0000000004.state"):
        disk.open(f"{FOLDER}/{name}", create=True)
    disk.open(f"{FOLDER}/files/notes.txt", create=True)
    removed = files.remove_unnamed()
    assert sorted(removed) == ["0000000001.places.new", "0000000004.state", "0000000009.run"]
    assert disk.list(f"{FOLDER}/files") == ["0000000001.journal", "notes.txt"]
