"""Give a finished file its sidecar: from the file, scanned once, or from the index that its writer kept."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.kernel.log.files import PASSING
from mainstem.kernel.log.jobs import Sealed, SealJob
from mainstem.kernel.log.layout import (
    FILE_HEAD,
    FileKind,
    body_name,
    check_file_head,
    places_name,
)
from mainstem.kernel.log.places import PlaceTable
from mainstem.kernel.log.recover import rebuild_places
from mainstem.kernel.log.sidecar import SidecarWriter
from mainstem.model.errors import CorruptFile, StorageFailed
from mainstem.model.ports import Disk


def seal_file(disk: Disk, job: SealJob, pace: Callable[[int], None]) -> Sealed:
    """Write the sidecar of a journal file, or one that a run has lost. Every frame is checked on the way."""
    file_id, kind, size = job.input.file_id, FileKind(job.input.kind), job.input.size
    file = disk.open(f"{job.folder}/{body_name(file_id, kind)}")
    try:
        if check_file_head(file.pread(FILE_HEAD.size, 0), kind, file.path) != file_id:
            raise CorruptFile(file.path, 16, f"the file head does not carry file id {file_id}")
        pace(size)
        table = rebuild_places(file, file_id, size)
        _write(disk, job.folder, table, size)
    finally:
        file.close()
    return Sealed(len(table), size)


def seal_table(disk: Disk, folder: str, table: PlaceTable, size: int) -> Sealed:
    """Write the sidecar of a file whose whole index is in memory, without reading any of the file again.

    OSError: it may be tried again. Whatever else fails ends the process, as any sync of its own that fails.
    """
    try:
        _write(disk, folder, table, size)
    except OSError as error:
        if error.errno in PASSING:
            raise
        raise StorageFailed(f"the index of file {table.file_id} could not be written: {error}") from error
    return Sealed(len(table), 0)


def _write(disk: Disk, folder: str, table: PlaceTable, size: int) -> None:
    writer = SidecarWriter(table.file_id)
    for partition in table.partitions():
        for place, top_ms in table.rows(partition):
            writer.add(partition, place, top_ms)
    # In memory the table also names what links in its own file name: those bodies go where the file goes.
    links = {target for target in table.targets if target[0] != table.file_id}
    writer.write(disk, f"{folder}/{places_name(table.file_id)}", size, links, table.moved)
