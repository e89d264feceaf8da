"""Write one run: frames sorted by partition and offset, and the sidecar that finds them.

    | file head | EXTENT p1 | EXTENT p1 | LINK p1 | EXTENT p2 | ... | BODY | BODY | MOVED | SEAL |

An extent is up to EXTENT_BYTES of consecutive batches of one partition, back to back, so that a reader gets
them with one read. Bodies that only links name come last. The moved frames repeat what the sidecar says
about old addresses: a sidecar can be lost, and is then made again from the run.
"""

from __future__ import annotations

from mainstem.kernel.log.jobs import BodyId, NewRun
from mainstem.kernel.log.layout import (
    FRAME_HEAD_BYTES,
    MOVED_BODY,
    FileKind,
    FrameKind,
    file_head,
    frame_head,
    places_name,
    run_name,
)
from mainstem.kernel.log.places import Place
from mainstem.kernel.log.sidecar import SidecarWriter
from mainstem.model.batch import LENGTH_END, MAGIC_AT
from mainstem.model.ports import Buffer, Disk

EXTENT_BYTES = 1 << 20
# Written bytes are put on disk in pieces, so that no sync of the journal waits behind a whole run.
SYNC_BYTES = 16 << 20
_MOVED_PER_FRAME = 32_768


class RunWriter:
    """Batches and links come sorted by (partition, offset); bodies after them; then `finish`."""

    def __init__(self, disk: Disk, folder: str, file_id: int, keyed: bool, keep_cached: bool) -> None:
        self.file_id = file_id
        self.keyed = keyed
        self.rows = 0
        self.body_bytes = 0
        self.moved: set[tuple[int, int, int]] = set()
        self.late_links = False  # room was kept for links that cannot be written yet
        self.result: NewRun | None = None
        self._links: set[BodyId] = set()
        self._keep_cached = keep_cached
        self._disk = disk
        self._folder = folder
        self._file = disk.open(f"{folder}/{run_name(file_id)}", create=True)
        self._file.truncate(0)
        head = file_head(FileKind.RUN, file_id)
        self._file.pwritev([head], 0)
        self._end = len(head)
        self._synced = 0
        self._sidecar = SidecarWriter(file_id)
        self._extent: list[Buffer] = []
        self._extent_bytes = 0
        self._extent_partition = -1

    @property
    def size(self) -> int:
        return self._end + self._extent_bytes

    def add_batch(self, partition: int, base: int, last: int, max_timestamp_ms: int, batch: Buffer) -> int:
        """The position that the batch now has."""
        size = len(batch)
        if partition != self._extent_partition or self._extent_bytes + size > EXTENT_BYTES:
            self._end_extent()
            self._extent_partition = partition
        position = self._end + FRAME_HEAD_BYTES + self._extent_bytes
        self._extent.append(batch)
        self._extent_bytes += size
        epoch = int.from_bytes(batch[LENGTH_END:MAGIC_AT], "big", signed=True)
        self._row(partition, Place(self.file_id, base, last, position, size, False, epoch), max_timestamp_ms)
        return position

    def reserve_link(self, partition: int, base: int, last: int, max_timestamp_ms: int, size: int) -> int:
        """Where the link will lie; `put_link` fills it in once the address of its body is known."""
        self._end_extent()
        position = self._end + FRAME_HEAD_BYTES
        self._end = position + size
        self._row(partition, Place(self.file_id, base, last, position, size, True), max_timestamp_ms)
        return position

    def put_link(self, position: int, partition: int, payload: bytes, body: BodyId) -> None:
        head = frame_head(self.file_id, position - FRAME_HEAD_BYTES, FrameKind.LINK, partition, payload)
        self._file.pwritev([head, payload], position - FRAME_HEAD_BYTES)
        if body[0] != self.file_id:
            self._links.add(body)

    def add_body(self, batch: Buffer) -> int:
        self._end_extent()
        position = self._end + FRAME_HEAD_BYTES
        self._frame(FrameKind.BODY, 0, batch)
        self.body_bytes += len(batch)
        return position

    def finish(self) -> None:
        """Everything is on disk when this returns, and nobody knows of it yet."""
        if self.result is not None:
            return
        self._end_extent()
        moved = sorted(self.moved)
        for first in range(0, len(moved), _MOVED_PER_FRAME):
            part = moved[first : first + _MOVED_PER_FRAME]
            self._frame(FrameKind.MOVED, 0, b"".join(MOVED_BODY.pack(*entry) for entry in part))
        self._frame(FrameKind.SEAL, 0, b"")
        self._file.fsync()
        if not self._keep_cached:
            self._file.uncache()
        self._file.close()
        path = f"{self._folder}/{places_name(self.file_id)}"
        self._sidecar.write(self._disk, path, self._end, self._links, moved)
        self.result = NewRun(self.file_id, self._end, self.keyed, self.body_bytes)
        self._sidecar = SidecarWriter(self.file_id)  # gives its memory back

    def abandon(self) -> None:
        """Leave nothing behind of a run that will not be."""
        self._file.close()
        names = (run_name(self.file_id), places_name(self.file_id), f"{places_name(self.file_id)}.new")
        for name in names:
            path = f"{self._folder}/{name}"
            if self._disk.exists(path):
                self._disk.remove(path)

    def _row(self, partition: int, place: Place, max_timestamp_ms: int) -> None:
        self._sidecar.add(partition, place, max_timestamp_ms)
        self.rows += 1

    def _end_extent(self) -> None:
        if self._extent:
            payload = self._extent[0] if len(self._extent) == 1 else b"".join(self._extent)
            self._frame(FrameKind.EXTENT, self._extent_partition, payload)
            self._extent = []
            self._extent_bytes = 0

    def _frame(self, kind: FrameKind, subject: int, payload: Buffer) -> None:
        head = frame_head(self.file_id, self._end, kind, subject, payload)
        self._file.pwritev([head, payload], self._end)
        self._end += len(head) + len(payload)
        if self._end - self._synced >= SYNC_BYTES:
            self._file.fdatasync()
            self._synced = self._end
