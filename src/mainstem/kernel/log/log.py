"""The log: append frames, find and read batches, take snapshots.

Called from one thread, its owner's (the broker's loop). The journal's writer tells it through `post` what
has reached the disk; only then does a place exist for readers. `read(..., wait=True)` may be called from
other threads: it touches only tables that grow at their end or are replaced whole.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from msgspec.structs import replace

from mainstem.kernel.log.entries import Entry, pack_atomic
from mainstem.kernel.log.files import Files
from mainstem.kernel.log.journal import Append, JournalFile, JournalWriter, NewPlace, Round
from mainstem.kernel.log.layout import FRAME_HEAD_BYTES, FrameKind, snapshot_name
from mainstem.kernel.log.manifest import Manifest, SnapshotEntry
from mainstem.kernel.log.places import Place, Places, PlaceTable
from mainstem.kernel.log.reader import BodyReader
from mainstem.kernel.log.recover import Recovered, Replay, recover
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.snapshot import SnapshotWriter
from mainstem.model.errors import DiskFull
from mainstem.model.logs import get_log
from mainstem.model.ports import Buffer, Disk, File

events = get_log(__name__)

Done = Callable[[Append], None]
Position = tuple[int, int]  # file id, position


@dataclass(frozen=True, slots=True)
class LogOptions:
    file_bytes: int = 256 << 20
    file_frames: int = 1_000_000
    # The last part of the last file: only what frees space is let in there.
    reserve_bytes: int = 64 << 20


class Log:
    """One per data folder. `post(function, argument)` must run function(argument) on the owner's thread."""

    def __init__(
        self,
        recovered: Recovered,
        options: LogOptions,
        post: Callable[[Callable[[Round], None], Round], object],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.files: Files = recovered.files
        self.warnings = recovered.warnings
        self._options = options
        self._reserve = min(options.reserve_bytes, options.file_bytes // 4)
        self._sealed: tuple[Places, ...] = tuple(recovered.sealed)
        self._table = recovered.table
        self._active = recovered.active
        self._synced: Position = (recovered.active.file_id, recovered.active.position)
        self._pending_bytes = 0
        self.reader = BodyReader(self._open_body)
        self.reader.use(recovered.active.file_id, recovered.active.file)
        for places in recovered.sealed:
            self._note_moved(places)
        self._housekeeper = ThreadPoolExecutor(1, "housekeeper")
        self._preparing: Future[None] | None = None
        self.on_synced: Callable[[Round], None] | None = None  # after every round, before anyone is told
        self.on_sealed: Callable[[int], None] | None = None  # a file is finished and named so
        self._post_any = post
        self._writer = JournalWriter(
            recovered.active,
            max_frames=options.file_frames,
            next_file=self.files.take_next,
            post=post,
            on_round=self._on_round,
            on_failure=on_failure,
            round_number=recovered.round_number,
        )

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        options: LogOptions,
        replay: Replay,
        post: Callable[[Callable[[Round], None], Round], object],
        on_failure: Callable[[BaseException], None],
        new_id: Callable[[], str],
    ) -> Log:
        return cls(recover(disk, folder, options.file_bytes, replay, new_id), options, post, on_failure)

    def start(self) -> None:
        self._writer.start()
        self.prepare()

    def close(self) -> None:
        """Everything appended is on disk, and its rounds are posted, when this returns."""
        self._writer.close()
        self._housekeeper.shutdown()

    # --- append --------------------------------------------------------------------------------

    def check_room(self, size: int, *, essential: bool = False) -> None:
        """Refuse before an offset is given: what is admitted here will find its place on disk."""
        room = self._active.capacity - self._active.position - self._pending_bytes + self.files.next_capacity
        if room - size < (0 if essential else self._reserve) and not self._grows(size):
            raise DiskFull(f"no space for another journal file in {self.files.folder}")

    def _grows(self, size: int) -> bool:
        """A file larger than the usual size is made on the spot for what does not fit a usual one."""
        return size > self._options.file_bytes // 2 and (
            self.files.disk.free_bytes(self.files.folder) > size + self._options.reserve_bytes
        )

    def append_batch(self, partition: int, batch: Buffer, place: NewPlace, done: Done | None) -> None:
        """A batch whose offsets are set; `place` says which."""
        self._submit(Append(FrameKind.BATCH, partition, batch, (place,), done))

    def append_delta(self, section: int, payload: bytes, done: Done | None) -> None:
        self._submit(Append(FrameKind.DELTA, section, payload, (), done))

    def append_atomic(self, entries: list[Entry], done: Done | None) -> None:
        """All of the entries or none of them survive a crash."""
        payload, places = pack_atomic(entries)
        self._submit(Append(FrameKind.ATOMIC, 0, payload, places, done))

    def _submit(self, append: Append) -> None:
        self._pending_bytes += FRAME_HEAD_BYTES + len(append.payload)
        self._writer.submit(append)

    def _on_round(self, done: Round) -> None:
        if done.sealed is not None:
            self._rolled(done.sealed, done.file)
        add = self._table.add
        for append in done.appends:
            self._pending_bytes -= FRAME_HEAD_BYTES + len(append.payload)
            position = append.position
            for place in append.places:
                add(
                    place.partition,
                    place.base,
                    place.last,
                    position + place.at,
                    place.size,
                    place.max_timestamp_ms,
                    place.link,
                )
        self._synced = (done.file.file_id, done.file.position)
        if self.on_synced is not None:
            self.on_synced(done)
        for append in done.appends:
            if append.done is not None:
                append.done(append)

    # --- files ---------------------------------------------------------------------------------

    def _rolled(self, sealed: JournalFile, active: JournalFile) -> None:
        self._sealed = (*self._sealed, self._table)
        self._table = PlaceTable(active.file_id)
        self._active = active
        self.reader.use(active.file_id, active.file)
        self._housekeeper.submit(self._finish_sealed, sealed.file_id, sealed.position)
        self.prepare()

    def _finish_sealed(self, file_id: int, size: int) -> None:
        self.files.seal(file_id, size)
        if self.on_sealed is not None:
            self.on_sealed(file_id)

    def prepare(self) -> None:
        """Have the next file made in the background, unless it is there or being made."""
        if not self.files.next_capacity and (self._preparing is None or self._preparing.done()):
            self._preparing = self._housekeeper.submit(self._prepare)

    def _prepare(self) -> None:
        try:
            self.files.prepare_next(zero=True)
        except OSError as error:
            events.warning("no space for the next journal file", folder=self.files.folder, why=str(error))

    def background(self, work: Callable[[], None]) -> Future[None]:
        """Run file work in order, off the owner's thread."""
        return self._housekeeper.submit(work)

    def _open_body(self, file_id: int) -> File:
        if any(entry.file_id == file_id for entry in self.files.manifest.runs):
            return self.files.open_run(file_id)
        return self.files.open_journal(file_id)

    @property
    def sealed(self) -> tuple[Places, ...]:
        """Indexes of finished files, oldest first."""
        return self._sealed

    @property
    def active_table(self) -> PlaceTable:
        return self._table

    def replace_sealed(self, gone: set[int], new: list[Places]) -> None:
        """After a merge, or when a sidecar is ready: `new` takes the place of the oldest of `gone`."""
        kept: list[Places] = []
        for places in self._sealed:
            if places.file_id in gone:
                kept.extend(new)
                new = []
            else:
                kept.append(places)
        self._sealed = tuple(kept)
        for places in kept:
            self._note_moved(places)
        for file_id in gone - {places.file_id for places in kept}:
            self.reader.forget(file_id)

    def _note_moved(self, places: Places) -> None:
        if isinstance(places, Sidecar):
            for old_file, old_position, position in places.moved:
                self.reader.moved((old_file, old_position), (places.file_id, position))

    # --- read ----------------------------------------------------------------------------------

    def places(
        self, partition: int, offset: int, max_bytes: int, upto: int, *, wait: bool = False
    ) -> list[Place]:
        """Places that hold offsets from `offset` to below `upto`; at least one if there is any."""
        table = self._table
        span = table.span(partition)
        if span is not None and span.first_offset <= offset:
            found = table.find(partition, offset, max_bytes, wait)
        else:
            found = self._find_sealed(partition, offset, max_bytes, wait)
        while found and found[-1].base >= upto:
            found.pop()
        return found

    def _find_sealed(self, partition: int, offset: int, max_bytes: int, wait: bool) -> list[Place]:
        tables: list[Places] = []
        for places in (self._table, *reversed(self._sealed)):
            span = places.span(partition)
            if span is None or span.last_offset < offset:
                continue
            tables.append(places)
            if span.first_offset <= offset:
                break
        found: list[Place] = []
        for places in reversed(tables):
            more = places.find(partition, offset, max_bytes, wait)
            found += more
            max_bytes -= sum(place.size for place in more)
            if max_bytes <= 0:
                break
        return found

    def read(
        self, partition: int, offset: int, max_bytes: int, upto: int, *, wait: bool = False
    ) -> list[Buffer]:
        """Whole batches, the first of which holds `offset`. Raises WouldBlock where wait=False would."""
        found = self.places(partition, offset, max_bytes, upto, wait=wait)
        return self.reader.batches(found, wait) if found else []

    def first_at_or_after(self, partition: int, timestamp_ms: int) -> Place | None:
        """The first place, in offset order, whose batch reaches the timestamp. May wait for the disk."""
        for places in (*self._sealed, self._table):
            span = places.span(partition)
            if span is not None and span.max_timestamp_ms >= timestamp_ms:
                return places.find_time(partition, timestamp_ms, True)
        return None

    def max_timestamp_ms(self, partition: int) -> int | None:
        spans = [span for places in (*self._sealed, self._table) if (span := places.span(partition))]
        return max((span.max_timestamp_ms for span in spans), default=None)

    def size_bytes(self, partition: int) -> int:
        return sum(
            span.total_bytes for places in (*self._sealed, self._table) if (span := places.span(partition))
        )

    # --- snapshots -----------------------------------------------------------------------------

    @property
    def synced(self) -> Position:
        """Up to where everything has reached the disk and the owner knows."""
        return self._synced

    def new_snapshot(self) -> tuple[SnapshotWriter, SnapshotEntry]:
        """Begin one at the present position: the state holds the effects of everything before it."""
        number = self.files.manifest.next_snapshot
        file_id, position = self._synced
        writer = SnapshotWriter(self.files.disk, self.files.path(snapshot_name(number)), number)
        return writer, SnapshotEntry(number, 0, file_id, position)

    def add_snapshot(self, writer: SnapshotWriter, entry: SnapshotEntry) -> None:
        """Finish and name it, and keep the one before. Call once all that it has seen is on disk."""
        size = writer.finish()
        old: list[SnapshotEntry] = []

        def edit(now: Manifest) -> Manifest:
            old.extend(now.snapshots[:-1])
            snapshots = (*now.snapshots[-1:], replace(entry, size=size))
            return replace(now, snapshots=snapshots, next_snapshot=entry.number + 1)

        self.files.change(edit)
        for gone in old:
            path = self.files.path(snapshot_name(gone.number))
            if self.files.disk.exists(path):
                self.files.disk.remove(path)
