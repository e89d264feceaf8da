"""Bring a data folder back to life: manifest, snapshot, then the journal behind it.

What may be thrown away is only a torn tail: frames that were never promised to anyone. A frame is torn when
it is bad, lies in the last file, and no later round says that its bytes had reached the disk. Everything
else that does not match its crc is damage, and named with file and position.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from mainstem.kernel.log.files import NO_SPACE, PASSING, Files
from mainstem.kernel.log.journal import SEAL_FRAME_BYTES, JournalFile
from mainstem.kernel.log.layout import (
    FILE_HEAD,
    VERSION,
    FileKind,
    check_file_head,
    journal_name,
    places_name,
    run_name,
    snapshot_name,
)
from mainstem.kernel.log.manifest import (
    JournalEntry,
    Manifest,
    SnapshotEntry,
    keep_spare,
    read_manifest,
    write_manifest,
    written_version,
)
from mainstem.kernel.log.places import Places, PlaceTable
from mainstem.kernel.log.replay import FrameReader, NoReplay
from mainstem.kernel.log.replay import Replay as Replay
from mainstem.kernel.log.scan import TAIL_BYTES, TAIL_ZEROS, later_sync, scan_file
from mainstem.kernel.log.sidecar import Sidecar, open_sidecar
from mainstem.kernel.log.snapshot import read_snapshot
from mainstem.model.errors import CorruptFile, DiskFull
from mainstem.model.ports import Disk, File


@dataclass(slots=True)
class Recovered:
    files: Files
    sealed: list[Places]  # oldest first
    table: PlaceTable
    active: JournalFile
    round_number: int
    warnings: list[str] = field(default_factory=list)
    retired: list[Places] = field(default_factory=list)


def recover(disk: Disk, folder: str, file_bytes: int, replay: Replay, new_id: Callable[[], str]) -> Recovered:
    """Open or create the log in `folder`; the caller holds its lock."""
    manifest = read_manifest(disk, folder)
    if manifest is None:
        manifest = Manifest(log_id=new_id(), next_file_id=1)
        for name in ("files", "snapshots"):
            disk.make_folder(f"{folder}/{name}")
        disk.sync_folder(folder)  # a manifest without its folders would be a riddle
        write_manifest(disk, folder, manifest)
    files = Files(disk, folder, manifest, file_bytes)
    _sync_names(files)
    warnings: list[str] = []
    start = _load_snapshot(files, replay, warnings)
    sealed: list[Places] = [
        _open_places(files, entry.file_id, entry.size, FileKind.RUN, warnings) for entry in manifest.runs
    ]
    reader = FrameReader(replay, start)
    recovered = _read_journals(files, reader, sealed, warnings)
    recovered.retired = [
        _open_places(files, entry.file_id, entry.size, FileKind(entry.kind), warnings)
        for entry in manifest.retired
    ]
    files.remove_unnamed()
    keep_spare(disk, folder)
    if written_version(disk, folder) < VERSION:
        # Before the first frame that an earlier version could not read, and might take for a torn tail.
        files.change(lambda now: now)
    return recovered


def _sync_names(files: Files) -> None:
    """What was read may so far be known to this running machine only: a process died, the disk did not.

    A file that is about to be written to must not lose its name, or its entry in the manifest, any more.
    """
    for name in ("files", "snapshots"):
        files.disk.sync_folder(files.path(name))
    files.disk.sync_folder(files.folder)


def _load_snapshot(files: Files, replay: Replay, warnings: list[str]) -> tuple[int, int]:
    """Apply the newest good snapshot; the position that replay of the journal starts from."""
    entries = files.manifest.snapshots
    for index, entry in enumerate(reversed(entries)):
        path = files.path(snapshot_name(entry.number))
        try:
            deltas = list(read_snapshot(files.disk, path, entry.number, entry.size))
        except CorruptFile as error:
            if index == len(entries) - 1:
                raise
            warnings.append(f"{error}; the snapshot before it is used")
            _forget_snapshot(files, entry)
            continue
        for section, payload in deltas:
            replay.delta(section, payload)
        return entry.file_id, entry.position
    return 0, 0


def _forget_snapshot(files: Files, bad: SnapshotEntry) -> None:
    def edit(manifest: Manifest) -> Manifest:
        kept = tuple(entry for entry in manifest.snapshots if entry.number != bad.number)
        return msgspec.structs.replace(manifest, snapshots=kept)

    files.change(edit)


def _read_journals(files: Files, reader: FrameReader, sealed: list[Places], warnings: list[str]) -> Recovered:
    active: JournalFile | None = None
    table = PlaceTable(0)
    for entry in files.manifest.journals:
        reader.sealed = False
        reader.frames = 0
        if entry.size and entry.file_id < reader.replay_from[0]:
            places = _open_places(files, entry.file_id, entry.size, FileKind.JOURNAL, warnings)
            sealed.append(places)
            continue
        file = _open_body(files, journal_name(entry.file_id), entry.file_id, FileKind.JOURNAL)
        next_table = PlaceTable(entry.file_id)
        end = _read_journal(file, entry, reader, next_table)
        if active is not None and not reader.frames and not reader.sealed:
            files.adopt_next(JournalFile(entry.file_id, file, FILE_HEAD.size, file.size()))
            continue
        if active is not None:
            raise CorruptFile(
                active.file.path, active.position, f"the file ends here, but {file.path} goes on behind it"
            )
        if reader.sealed:
            if not entry.size:
                file.fsync()  # the manifest may not promise a seal that a power cut can still take back
                _note_seal(files, entry.file_id, end, warnings)
            sealed.append(next_table)
            continue
        _check_reach(file, reader, entry.file_id, end)
        active = JournalFile(entry.file_id, file, end, file.size(), reader.frames)
        table = next_table
    if active is not None:
        # Only now: nothing is changed before all files were found to be sound.
        active.capacity = _cut_tail(active.file, active.position, files.file_bytes)
    else:
        try:
            active = files.take_next()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise DiskFull(f"no space for a journal file in {files.folder}") from None
        table = PlaceTable(active.file_id)
    return Recovered(files, sealed, table, active, reader.round_number, warnings)


def _note_seal(files: Files, file_id: int, size: int, warnings: list[str]) -> None:
    try:
        files.seal(file_id, size)
    except OSError as error:
        if error.errno not in PASSING:
            raise
        warnings.append(f"no space to note that {journal_name(file_id)} is finished: the next start will")


def _read_journal(file: File, entry: JournalEntry, reader: FrameReader, table: PlaceTable) -> int:
    """Replay one file; where its frames end. A bad frame that was promised is an error."""
    limit = entry.size or file.size()
    if file.size() < max(limit, entry.capacity if not entry.size else 0):
        raise CorruptFile(file.path, file.size(), f"the file should have {max(limit, entry.capacity)} bytes")
    end, why = FILE_HEAD.size, "end"
    for window in scan_file(file, FILE_HEAD.size, entry.file_id, limit):
        reader.take(window, entry.file_id, table)
        end, why = window.found.end, window.found.why
        if reader.sealed:
            break
    if entry.size and (not reader.sealed or end != entry.size):
        raise CorruptFile(file.path, end, f"a frame of a finished file is damaged ({why})")
    if not reader.sealed:
        proof = later_sync(file, entry.file_id, end, limit)
        if proof is not None:
            raise CorruptFile(
                file.path, end, f"a frame is damaged ({why}): the round at {proof} says it was on disk"
            )
    return end


def _check_reach(file: File, reader: FrameReader, file_id: int, end: int) -> None:
    """The journal must reach at least to where the snapshot says it did."""
    snapshot_file, snapshot_position = reader.replay_from
    if file_id < snapshot_file or (file_id == snapshot_file and end < snapshot_position):
        raise CorruptFile(
            file.path, end, f"frames end here, but a snapshot covers {snapshot_file}:{snapshot_position}"
        )


def _cut_tail(file: File, end: int, file_bytes: int) -> int:
    """Nothing of a torn tail may stay behind the new end, where later rounds could uncover it.

    Zeros are written over it: that needs no space, which a full disk does not have. Returns the capacity.
    """
    for at in range(end, file.size(), TAIL_BYTES):
        data = file.pread(TAIL_BYTES, at)
        if data != TAIL_ZEROS and any(data):
            file.pwritev([TAIL_ZEROS[: len(data)]], at)
    with contextlib.suppress(OSError):
        file.allocate(max(file_bytes, end + SEAL_FRAME_BYTES))
    file.fsync()
    return file.size()


def _open_body(files: Files, name: str, file_id: int, kind: FileKind) -> File:
    path = files.path(name)
    if not files.disk.exists(path):
        raise CorruptFile(path, 0, "the file that the manifest names is missing")
    file = files.disk.open(path)
    if check_file_head(file.pread(FILE_HEAD.size, 0), kind, path) != file_id:
        raise CorruptFile(path, 16, f"the file head does not carry file id {file_id}")
    return file


def _open_places(files: Files, file_id: int, size: int, kind: FileKind, warnings: list[str]) -> Places:
    """A finished file's sidecar; rebuilt from the file itself when the sidecar is missing or damaged."""
    name = journal_name(file_id) if kind == FileKind.JOURNAL else run_name(file_id)
    file = _open_body(files, name, file_id, kind)
    if file.size() < size:
        raise CorruptFile(file.path, file.size(), f"the file should have {size} bytes")
    path = files.path(places_name(file_id))
    if kind == FileKind.JOURNAL and not files.disk.exists(path):
        # Finished so short a time ago that nobody got round to its sidecar.
        return rebuild_places(file, file_id, size)
    try:
        if not files.disk.exists(path):
            raise CorruptFile(path, 0, "the sidecar is missing")
        sidecar: Sidecar = open_sidecar(files.disk, path)
        if sidecar.file_id != file_id or sidecar.body_file_size != size:
            raise CorruptFile(path, 0, f"the sidecar belongs to another file than {name}")
        return sidecar
    except CorruptFile as error:
        warnings.append(f"{error}; rebuilt from {name}")
    return rebuild_places(file, file_id, size)


def rebuild_places(file: File, file_id: int, size: int) -> PlaceTable:
    """The places of a finished file, from the file; every frame is checked on the way."""
    table = PlaceTable(file_id)
    reader = FrameReader(NoReplay(), (file_id + 1, 0))
    _read_journal(file, JournalEntry(file_id, size), reader, table)
    return table
