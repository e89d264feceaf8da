"""Give a finished file its sidecar: from the file, scanned once, or from the index that its writer kept."""

from __future__ import annotations

from collections.abc import Callable

from mainstem.kernel.log.jobs import Sealed, SealJob
from mainstem.kernel.log.layout import (
    FILE_HEAD,
    FileKind,
    body_name,
    check_file_head,
    journal_name,
    places_name,
)
from mainstem.kernel.log.places import Place, PlaceTable
from mainstem.kernel.log.recover import rebuild_places
from mainstem.kernel.log.sidecar import SidecarWriter
from mainstem.model.batch import LENGTH_END, MAGIC_AT
from mainstem.model.errors import CorruptFile
from mainstem.model.ports import Disk, File


def seal_file(disk: Disk, job: SealJob, pace: Callable[[int], None]) -> Sealed:
    """Write the sidecar of a journal file, or one that a run has lost. Every frame is checked on the way."""
    file_id, kind, size = job.input.file_id, FileKind(job.input.kind), job.input.size
    file = disk.open(f"{job.folder}/{body_name(file_id, kind)}")
    try:
        if check_file_head(file.pread(FILE_HEAD.size, 0), kind, file.path) != file_id:
            raise CorruptFile(file.path, 16, f"the file head does not carry file id {file_id}")
        pace(size)
        table = rebuild_places(file, file_id, size)
        _write(disk, job.folder, table, size, file)
    finally:
        file.close()
    return Sealed(len(table), size)


def seal_table(disk: Disk, folder: str, table: PlaceTable, size: int) -> Sealed:
    """Write the sidecar of a journal file that this process wrote, without reading all of it again."""
    file = disk.open(f"{folder}/{journal_name(table.file_id)}")
    try:
        _write(disk, folder, table, size, file)
    finally:
        file.close()
    return Sealed(len(table), size)


def _write(disk: Disk, folder: str, table: PlaceTable, size: int, file: File) -> None:
    writer = SidecarWriter(table.file_id)
    for partition in table.partitions():
        for place, top_ms in table.rows(partition):
            writer.add(partition, _with_epoch(place, file), top_ms)
    writer.write(disk, f"{folder}/{places_name(table.file_id)}", size, table.targets, table.moved)


def _with_epoch(place: Place, file: File) -> Place:
    """The writer's index leaves the leader epoch out, which the batch's own crc leaves out too."""
    if place.epoch >= 0 or place.link:
        return place
    found = file.pread(MAGIC_AT - LENGTH_END, place.position + LENGTH_END)
    return place._replace(epoch=int.from_bytes(found, "big", signed=True))
