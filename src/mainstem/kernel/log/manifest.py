"""The manifest: which files make up the log, so that a missing one is noticed.

It is small, and replaced as a whole: written beside, synced, renamed over, and the folder synced. Whatever
merges or seals becomes true at that rename and at no other moment.
"""

from __future__ import annotations

import contextlib

import msgspec

from mainstem.kernel.log.layout import (
    FILE_HEAD,
    FRAME_HEAD_BYTES,
    FileKind,
    FrameKind,
    check_file_head,
    file_head,
    frame_head,
)
from mainstem.kernel.log.scan import scan
from mainstem.model.errors import CorruptFile, StorageFailed
from mainstem.model.ports import Disk

MANIFEST = "MANIFEST"
# Space that is kept for the next manifest, so that files can be dropped even when the disk is full.
SPARE_BYTES = 16 << 10
# More than a manifest has that names no file.
FIRST_BYTES = 512


class JournalEntry(msgspec.Struct, frozen=True):
    """A journal file in writing order. Open ones have size 0; a sealed one ends at `size`.

    An open one has at least the `capacity` bytes that were taken for it: fewer means that it was cut.
    """

    file_id: int
    size: int = 0
    capacity: int = 0


class RunEntry(msgspec.Struct, frozen=True):
    """A merged file. Runs of one group were made by one merge: what they hold does not overlap."""

    file_id: int
    size: int
    level: int
    group: int = 0
    keyed: bool = False  # holds partitions that are compacted by key, and no others
    body_bytes: int = 0  # of bodies that only links name


class RetiredEntry(msgspec.Struct, frozen=True):
    """A merged-away file that a link may still name a body of: it has no places any more."""

    file_id: int
    size: int
    kind: int


class SnapshotEntry(msgspec.Struct, frozen=True):
    """A snapshot and the journal position that replay starts from."""

    number: int
    size: int
    file_id: int
    position: int


class Manifest(msgspec.Struct, frozen=True):
    """Runs and journals are in age order, oldest first: for each partition offsets only grow along it."""

    log_id: str
    next_file_id: int
    next_snapshot: int = 1
    runs: tuple[RunEntry, ...] = ()
    journals: tuple[JournalEntry, ...] = ()
    snapshots: tuple[SnapshotEntry, ...] = ()
    retired: tuple[RetiredEntry, ...] = ()


def write_manifest(disk: Disk, folder: str, manifest: Manifest) -> None:
    """OSError: nothing has changed. StorageFailed: nobody can know, and the process has to end."""
    payload = msgspec.json.encode(manifest)
    head = file_head(FileKind.MANIFEST, 0)
    frame = frame_head(0, len(head), FrameKind.DELTA, 0, payload)
    path = f"{folder}/{MANIFEST}"
    file = disk.open(f"{path}.new", create=True)
    try:
        # Over the spare bytes of the last time: cutting them off first would give the space away.
        file.pwritev([head, frame, payload], 0)
        file.truncate(len(head) + len(frame) + len(payload))
        file.fsync()
    finally:
        file.close()
    disk.rename(f"{path}.new", path)
    try:
        disk.sync_folder(folder)
    except OSError as error:
        raise StorageFailed(f"{path}: the folder could not be synced: {error}") from error
    keep_spare(disk, folder)


def keep_spare(disk: Disk, folder: str) -> None:
    """Take the space for the next manifest, which will be a little larger than this one."""
    # A luxury: without it the next manifest needs fresh space like anything else.
    with contextlib.suppress(OSError):
        now = disk.open(f"{folder}/{MANIFEST}")
        spare = disk.open(f"{folder}/{MANIFEST}.new", create=True)
        spare.allocate(max(SPARE_BYTES, 2 * now.size()))
        spare.close()
        now.close()


def written_version(disk: Disk, folder: str) -> int:
    """The format that a good manifest was written in."""
    file = disk.open(f"{folder}/{MANIFEST}")
    try:
        return int(FILE_HEAD.unpack(file.pread(FILE_HEAD.size, 0))[1])
    finally:
        file.close()


def read_manifest(disk: Disk, folder: str) -> Manifest | None:
    """None for a folder that never held a log; anything else that is not a good manifest is an error."""
    path = f"{folder}/{MANIFEST}"
    if disk.exists(path):
        return _read(disk, path)
    _refuse_former_log(disk, folder)
    return None


def _refuse_former_log(disk: Disk, folder: str) -> None:
    """Without a manifest a folder is new, unless what lies there says that it had one.

    MANIFEST.new alone may be of a first start that was cut short. That start makes and syncs both folders,
    then writes a manifest that names nothing, and renames it. So it is of a former log if a folder is
    missing, if it names files, or if it is longer than a first manifest can be: the spare bytes are taken
    only once there is a manifest, and a later one grows with its files.
    """
    path = f"{folder}/{MANIFEST}"
    folders = [f"{folder}/{name}" for name in ("files", "snapshots")]
    if any(disk.exists(one) and disk.list(one) for one in folders):
        raise CorruptFile(path, 0, "the manifest is missing but the folder holds files of a log")
    if disk.exists(f"{path}.new") and not (
        all(map(disk.exists, folders)) and _is_of_a_first_start(disk, f"{path}.new")
    ):
        raise CorruptFile(
            path, 0, f"the manifest is missing but {MANIFEST}.new is of a former log; a new one needs it gone"
        )


def _is_of_a_first_start(disk: Disk, path: str) -> bool:
    try:
        found = _read(disk, path)
    except CorruptFile:  # torn, or empty
        file = disk.open(path)
        try:
            return file.size() <= FIRST_BYTES
        finally:
            file.close()
    return not (found.journals or found.runs or found.snapshots or found.retired)


def _read(disk: Disk, path: str) -> Manifest:
    file = disk.open(path)
    try:
        data = file.pread(file.size(), 0)
    finally:
        file.close()
    check_file_head(data, FileKind.MANIFEST, path)
    found = scan(memoryview(data), 0, FILE_HEAD.size, 0)
    if found.kinds != [FrameKind.DELTA] or found.end != len(data):
        raise CorruptFile(path, found.end, f"the manifest does not match its crc ({found.why})")
    start = found.positions[0]
    try:
        return msgspec.json.decode(data[start : start + found.sizes[0]], type=Manifest)
    except msgspec.ValidationError as error:
        raise CorruptFile(path, FILE_HEAD.size + FRAME_HEAD_BYTES, str(error)) from None
