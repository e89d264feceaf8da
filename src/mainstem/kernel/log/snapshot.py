"""Snapshots: the state of the house at a journal position, as the deltas that rebuild it.

The file holds frames like the journal's (kind DELTA, subject = section), and ends with a SEAL frame whose
presence says it is whole. A snapshot may contain effects of deltas *behind* its position (it is written in
slices while the house goes on), so deltas are such that applying one twice does no harm, and a snapshot
counts only once everything it has seen is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.kernel.log.files import PASSING
from mainstem.kernel.log.layout import FILE_HEAD, FileKind, FrameKind, check_file_head, file_head, frame_head
from mainstem.kernel.log.scan import scan
from mainstem.model.errors import CorruptFile, StorageFailed
from mainstem.model.ports import Buffer, Disk

Delta = tuple[int, bytes]  # section number, payload


class SnapshotWriter:
    """Writes beside, so that a half-written snapshot never has a snapshot's name."""

    def __init__(self, disk: Disk, path: str, number: int) -> None:
        self._disk = disk
        self._path = path
        self._number = number
        self._file = disk.open(f"{path}.new", create=True)
        self._file.truncate(0)
        head = file_head(FileKind.SNAPSHOT, number)
        self._file.pwritev([head], 0)
        self._position = len(head)

    def write(self, deltas: list[Delta]) -> None:
        chunks: list[Buffer] = []
        at = self._position
        for section, payload in deltas:
            chunks += [frame_head(self._number, at, FrameKind.DELTA, section, payload), payload]
            at += len(chunks[-2]) + len(payload)
        self._file.pwritev(chunks, self._position)
        self._position = at

    def finish(self) -> int:
        """Seal, sync, rename; returns the size.

        OSError: it may be tried again. What else fails ends the process.
        """
        try:
            return self._finish()
        except OSError as error:
            if error.errno in PASSING:
                raise
            raise StorageFailed(f"{self._path}: the snapshot could not be written: {error}") from error

    def _finish(self) -> int:
        seal = frame_head(self._number, self._position, FrameKind.SEAL, 0, b"")
        self._file.pwritev([seal], self._position)
        self._position += len(seal)
        self._file.fsync()
        self._file.close()
        self._disk.rename(f"{self._path}.new", self._path)
        self._disk.sync_folder(self._path.rsplit("/", 1)[0])
        return self._position


def read_snapshot(disk: Disk, path: str, number: int, size: int) -> Iterator[Delta]:
    """All deltas, after the whole file has been checked."""
    if not disk.exists(path):
        raise CorruptFile(path, 0, "the snapshot that the manifest names is missing")
    file = disk.open(path)
    try:
        data = file.pread(file.size(), 0)
    finally:
        file.close()
    if check_file_head(data, FileKind.SNAPSHOT, path) != number or len(data) != size:
        raise CorruptFile(path, len(data), f"expected snapshot {number} with {size} bytes")
    found = scan(memoryview(data), 0, FILE_HEAD.size, number)
    if found.end != size or not found.kinds or found.kinds[-1] != FrameKind.SEAL:
        raise CorruptFile(path, found.end, f"a frame of the snapshot is damaged ({found.why})")
    view = memoryview(data)
    for kind, section, at, length in zip(
        found.kinds, found.subjects, found.positions, found.sizes, strict=True
    ):
        if kind == FrameKind.DELTA:
            yield section, bytes(view[at : at + length])
