"""Read everything in a data folder that nobody serves, or in a backup, and say whether it is sound.

Nothing is changed and nothing is guessed: every frame, batch, link, sidecar and snapshot is held against its
crc, every index against its file, and every link against the files that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mainstem.kernel.log.jobs import BodyId
from mainstem.kernel.log.layout import (
    FILE_HEAD,
    FileKind,
    FrameKind,
    body_name,
    check_file_head,
    places_name,
    snapshot_name,
)
from mainstem.kernel.log.manifest import MANIFEST, Manifest, read_manifest
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.replay import FrameReader, NoReplay, atomic_entries
from mainstem.kernel.log.scan import Window, later_sync, scan_file
from mainstem.kernel.log.sidecar import open_sidecar
from mainstem.kernel.log.snapshot import read_snapshot
from mainstem.model.batch import crc_matches, iter_batches
from mainstem.model.errors import CorruptBatch, CorruptFile, InvalidRequest, StorageError
from mainstem.model.ports import Disk, File

Progress = Callable[[int, int], None]  # bytes read so far, bytes in all


@dataclass(slots=True)
class FileReport:
    name: str
    kind: str
    bytes: int = 0
    frames: int = 0
    batches: int = 0
    damage: str | None = None  # names file and position
    note: str | None = None  # harmless: what a start of the broker mends by itself


@dataclass(slots=True)
class Report:
    log_id: str
    files: list[FileReport] = field(default_factory=list)

    @property
    def damage(self) -> str | None:
        """The first one found."""
        return next((file.damage for file in self.files if file.damage), None)

    @property
    def ok(self) -> bool:
        return self.damage is None


def verify(disk: Disk, folder: str, progress: Progress = lambda done, total: None) -> Report:
    """Damage is reported, not raised; only a folder that holds no log at all is an error."""
    try:
        manifest = read_manifest(disk, folder)
    except StorageError as error:
        return Report("", [FileReport(MANIFEST, "manifest", damage=str(error))])
    if manifest is None:
        raise InvalidRequest(f"there is no log in {folder}")
    return _Verify(disk, folder, manifest, progress).run()


@dataclass(slots=True)
class _Listed:
    file_id: int
    kind: FileKind
    size: int
    capacity: int = 0  # of a file that is not finished


class _Verify:
    def __init__(self, disk: Disk, folder: str, manifest: Manifest, progress: Progress) -> None:
        self._disk = disk
        self._folder = folder
        self._manifest = manifest
        self._progress = progress
        self._done = 0
        self._listed = [_Listed(e.file_id, FileKind.RUN, e.size) for e in manifest.runs]
        self._listed += [_Listed(e.file_id, FileKind.JOURNAL, e.size, e.capacity) for e in manifest.journals]
        self._listed += [_Listed(e.file_id, FileKind(e.kind), e.size) for e in manifest.retired]
        self._retired = {e.file_id for e in manifest.retired}
        self._total = sum(map(self._size_of, self._listed)) + sum(e.size for e in manifest.snapshots)
        self._moved: dict[BodyId, int] = {}
        self._targets: list[tuple[BodyId, FileReport]] = []

    def run(self) -> Report:
        report = Report(self._manifest.log_id, [FileReport(MANIFEST, "manifest")])
        for entry in self._manifest.snapshots:
            report.files.append(self._snapshot(entry.number, entry.size))
        for listed in self._listed:
            found = FileReport(body_name(listed.file_id, listed.kind), listed.kind.name.lower())
            report.files.append(found)
            try:
                self._file(listed, found)
            except (StorageError, OSError) as error:
                found.damage = found.damage or str(error)
        self._links()
        self._progress(self._total, self._total)
        return report

    def _size_of(self, listed: _Listed) -> int:
        path = f"{self._folder}/{body_name(listed.file_id, listed.kind)}"
        if listed.size or not self._disk.exists(path):
            return listed.size
        file = self._disk.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def _read(self, count: int) -> None:
        self._done += count
        self._progress(min(self._done, self._total), self._total)

    def _snapshot(self, number: int, size: int) -> FileReport:
        found = FileReport(snapshot_name(number), "snapshot", size)
        path = f"{self._folder}/{snapshot_name(number)}"
        try:
            found.frames = sum(1 for _ in read_snapshot(self._disk, path, number, size))
        except (StorageError, OSError) as error:
            found.damage = str(error)
        self._read(size)
        return found

    def _file(self, listed: _Listed, found: FileReport) -> None:
        path = f"{self._folder}/{found.name}"
        if not self._disk.exists(path):
            raise CorruptFile(path, 0, "the file that the manifest names is missing")
        file = self._disk.open(path)
        try:
            if check_file_head(file.pread(FILE_HEAD.size, 0), listed.kind, path) != listed.file_id:
                raise CorruptFile(path, 16, f"the file head does not carry file id {listed.file_id}")
            table = self._frames(file, listed, found)
        finally:
            file.close()
        if listed.size:
            self._sidecar(listed, found, table)
        self._moved |= {(old, position): listed.file_id for old, position, _ in table.moved}
        if listed.file_id not in self._retired:
            self._targets += [(target, found) for target in table.targets]

    def _frames(self, file: File, listed: _Listed, found: FileReport) -> PlaceTable:
        limit = listed.size or file.size()
        least = listed.size or listed.capacity
        if file.size() < least:
            raise CorruptFile(file.path, file.size(), f"the file should have {least} bytes")
        table = PlaceTable(listed.file_id)
        reader = FrameReader(NoReplay(), (listed.file_id + 1, 0))
        end, why = FILE_HEAD.size, "end"
        for window in scan_file(file, FILE_HEAD.size, listed.file_id, limit):
            reader.take(window, listed.file_id, table)
            for position, batches in _batches(window):
                found.batches += _check_batches(file.path, position, batches)
            end, why = window.found.end, window.found.why
            found.frames += len(window.found.kinds)
            self._read(len(window.view))
            if reader.sealed:
                break
        found.bytes = end
        if listed.size and (not reader.sealed or end != listed.size):
            raise CorruptFile(file.path, end, f"a frame of a finished file is damaged ({why})")
        if not reader.sealed:
            proof = later_sync(file, listed.file_id, end, limit)
            if proof is not None:
                raise CorruptFile(file.path, end, f"a frame is damaged ({why}), see the round at {proof}")
            if why != "zero" and end < limit:
                found.note = f"a torn tail at {end}"
        return table

    def _sidecar(self, listed: _Listed, found: FileReport, table: PlaceTable) -> None:
        path = f"{self._folder}/{places_name(listed.file_id)}"
        if not self._disk.exists(path):
            found.note = "has no sidecar yet"
            return
        sidecar = open_sidecar(self._disk, path)
        if sidecar.file_id != listed.file_id or sidecar.body_file_size != listed.size:
            raise CorruptFile(path, 0, "the sidecar belongs to another file")
        same = sidecar.partitions() == table.partitions() and all(
            sidecar.rows(partition) == list(table.rows(partition)) for partition in table.partitions()
        )
        # It may keep more bodies alive than its file names: an append that named one went to the next file.
        same = same and table.targets <= set(sidecar.links) and sorted(sidecar.moved) == sorted(table.moved)
        if not same:
            raise CorruptFile(path, 0, "the sidecar does not say what its file holds")

    def _links(self) -> None:
        """Every body that a link in use names must lie in a file that exists.

        Those of retired files are not in use: their places went elsewhere, or were dropped with their bodies.
        """
        files = {listed.file_id for listed in self._listed}
        for target, found in self._targets:
            if self._moved.get(target, target[0]) not in files and not found.damage:
                path = f"{self._folder}/{found.name}"
                found.damage = str(CorruptFile(path, 0, f"a link names a body at {target}, which is nowhere"))


def _batches(window: Window) -> Iterator[tuple[int, memoryview]]:
    """(position, bytes) of everything in a window that is batches."""
    holds_batches = (FrameKind.BATCH, FrameKind.BODY, FrameKind.EXTENT)
    for index, kind in enumerate(window.found.kinds):
        if kind in holds_batches:
            yield window.found.positions[index], window.payload(index)
        elif kind == FrameKind.ATOMIC:
            for entry_kind, _, at, entry in atomic_entries(window.payload(index)):
                if entry_kind in holds_batches:
                    yield window.found.positions[index] + at, entry


def _check_batches(path: str, position: int, data: memoryview) -> int:
    count = end = 0
    try:
        for at, header in iter_batches(data):
            end = at + header.size
            if not crc_matches(data[at:end]):
                raise CorruptFile(path, position + at, "a batch does not match its crc")
            count += 1
    except CorruptBatch as error:
        raise CorruptFile(path, position + end, str(error)) from None
    if end != len(data):
        raise CorruptFile(path, position + end, "these bytes are not a whole batch")
    return count
