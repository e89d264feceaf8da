"""A copy of a log that is as good as the log, taken while it serves.

What a copy holds is decided in one moment on the owner's thread: the manifest, and how far the journal is on
disk. Everything else may take its time on another thread: finished files do not change and are pinned against
deletion, and of the file that is being written only the part is copied that was synced in that moment. So a
copy recovers to everything that was acknowledged before it began.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from mainstem.kernel.log.layout import FILE_HEAD, FileKind, FrameKind, body_name, places_name, snapshot_name
from mainstem.kernel.log.log import Log
from mainstem.kernel.log.manifest import Manifest, read_manifest, write_manifest
from mainstem.kernel.log.scan import later_sync, scan_file
from mainstem.kernel.log.verify import verify
from mainstem.model.errors import CorruptFile, InvalidRequest, StorageError
from mainstem.model.ports import Disk

Progress = Callable[[int, int], None]  # bytes done, bytes in all
PIECE_BYTES = 4 << 20


def _quiet(done: int, total: int) -> None:
    pass


class LinkingDisk(Disk, Protocol):
    def link(self, old: str, new: str) -> None:
        """A second name for a file; OSError where the file system cannot."""


class Backup:
    """Made on the owner's thread; `run` belongs on another one and must be called once, or `cancel`."""

    def __init__(self, log: Log, disk: LinkingDisk) -> None:
        self._disk = disk
        self._folder = log.files.folder
        self._stack = contextlib.ExitStack()
        self._manifest = self._stack.enter_context(log.files.pinned())
        self._synced = log.synced

    def cancel(self) -> None:
        self._stack.close()

    def run(self, target: str, progress: Progress = _quiet) -> Manifest:
        """Copy into a folder that is empty or not there yet. Finished files are linked where that works."""
        with self._stack:
            manifest, prefix = _cut(self._manifest, self._synced)
            copy_folder(self._disk, self._folder, target, manifest, progress, prefix=prefix, link=True)
            return manifest


def restore(disk: LinkingDisk, backup: str, target: str, progress: Progress = _quiet) -> None:
    """Bring a backup back as a data folder, after all of it was read and found sound."""
    _check_empty(disk, target)
    report = verify(disk, backup, lambda done, total: progress(done, total * 2))
    if report.damage is not None:
        raise StorageError(f"the backup is damaged, nothing was restored: {report.damage}")
    manifest = read_manifest(disk, backup)
    assert manifest is not None  # verify has read it
    copy_folder(disk, backup, target, manifest, lambda done, total: progress(total + done, total * 2))


def copy_stopped(disk: LinkingDisk, source: str, target: str, progress: Progress = _quiet) -> None:
    """Copy a folder that nobody serves: what was written, not the space that was taken for more."""
    manifest = read_manifest(disk, source)
    if manifest is None:
        raise InvalidRequest(f"there is no log in {source}")
    synced = _written(disk, source, manifest)
    if synced is None:
        prefix: dict[int, int] = {}
    else:
        manifest, prefix = _cut(manifest, synced)
    copy_folder(disk, source, target, manifest, progress, prefix=prefix, link=True)


def _written(disk: Disk, folder: str, manifest: Manifest) -> tuple[int, int] | None:
    """The last file that holds frames, and where they end; None if something is damaged: then copy it all."""
    last, sealed = None, True
    for entry in manifest.journals:
        if entry.size:
            continue
        file = disk.open(f"{folder}/{body_name(entry.file_id, FileKind.JOURNAL)}")
        try:
            end, limit, seals = FILE_HEAD.size, file.size(), False
            for window in scan_file(file, FILE_HEAD.size, entry.file_id, limit):
                end = window.found.end
                seals = FrameKind.SEAL in window.found.kinds
            if later_sync(file, entry.file_id, end, limit) is not None:
                return None
        finally:
            file.close()
        if sealed or end > FILE_HEAD.size:  # behind a finished file there must be one to go on with
            last, sealed = (entry.file_id, end), seals
    return last


def copy_folder(
    disk: LinkingDisk,
    source: str,
    target: str,
    manifest: Manifest,
    progress: Progress,
    *,
    prefix: dict[int, int] | None = None,
    link: bool = False,
) -> None:
    """Copy what the manifest names, and the manifest last: a copy that was cut short is no log."""
    _check_empty(disk, target)
    for name in ("", "/files", "/snapshots"):
        disk.make_folder(f"{target}{name}")
    names: list[tuple[str, int | None]] = [
        (snapshot_name(entry.number), None) for entry in manifest.snapshots
    ]
    finished = [(run.file_id, FileKind.RUN, run.size) for run in manifest.runs]
    finished += [(entry.file_id, FileKind.JOURNAL, entry.size) for entry in manifest.journals if entry.size]
    finished += [(entry.file_id, FileKind(entry.kind), entry.size) for entry in manifest.retired]
    for file_id, kind, size in finished:
        # The space behind its end may be given back at any moment.
        names.append((body_name(file_id, kind), size))
        if disk.exists(f"{source}/{places_name(file_id)}"):
            names.append((places_name(file_id), None))
    linkable = {name for name, _ in names} if link else set()
    for entry in manifest.journals:
        if not entry.size:
            names.append((body_name(entry.file_id, FileKind.JOURNAL), (prefix or {}).get(entry.file_id)))
    sizes = {name: _size(disk, f"{source}/{name}", upto) for name, upto in names}
    total, done = sum(sizes.values()), 0
    for name, size in sizes.items():
        old, new = f"{source}/{name}", f"{target}/{name}"
        if not (name in linkable and _linked(disk, old, new)):
            _copy(disk, old, new, size, partial(_report, progress, done, total))
        done += size
        progress(done, total)
    for name in ("/files", "/snapshots", ""):
        disk.sync_folder(f"{target}{name}")
    write_manifest(disk, target, manifest)


def _cut(manifest: Manifest, synced: tuple[int, int]) -> tuple[Manifest, dict[int, int]]:
    """The manifest of the copy, and how much of the file that is being written belongs to it.

    A file before the synced one is whole, even if the manifest does not say yet that it is finished; how much
    of its space is copied, nobody needs to know. One behind it is empty.
    """
    file_id, position = synced
    capacity = {file_id: position}
    journals = tuple(
        entry if entry.size else replace(entry, capacity=capacity.get(entry.file_id, 0))
        for entry in manifest.journals
        if entry.size or entry.file_id <= file_id
    )
    return replace(manifest, journals=journals), {file_id: position}


def _check_empty(disk: Disk, target: str) -> None:
    if disk.exists(target) and disk.list(target):
        raise InvalidRequest(f"{target} is not empty")


def _size(disk: Disk, path: str, upto: int | None) -> int:
    file = disk.open(path)
    try:
        return file.size() if upto is None else min(upto, file.size())
    finally:
        file.close()


def _report(progress: Progress, before: int, total: int, at: int) -> None:
    progress(before + at, total)


def _linked(disk: LinkingDisk, old: str, new: str) -> bool:
    """False where names cannot be shared: another file system, or one without hard links."""
    try:
        disk.link(old, new)
    except OSError:
        return False
    return True


def _copy(disk: Disk, old: str, new: str, size: int, progress: Callable[[int], None]) -> None:
    source, target = disk.open(old), disk.open(new, create=True)
    try:
        for at in range(0, size, PIECE_BYTES):
            piece = source.pread(min(PIECE_BYTES, size - at), at)
            if len(piece) != min(PIECE_BYTES, size - at):
                raise CorruptFile(old, at + len(piece), f"the file should have {size} bytes")
            target.pwritev([piece], at)
            progress(at + len(piece))
        target.fsync()
    finally:
        source.close()
        target.close()
