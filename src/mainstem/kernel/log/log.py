"""The log: append frames, find and read batches, take snapshots.

Called from one thread, its owner's (the broker's loop). The journal's writer tells it through `post` what
has reached the disk; only then does a place exist for readers. `read(..., wait=True)` may be called from
other threads: it touches only tables that grow at their end or are replaced whole.

Types for the compiler are in log.pxd: only what every batch passes has any.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from mainstem.kernel.log.cached import CachedFiles
from mainstem.kernel.log.entries import Entry, pack_atomic
from mainstem.kernel.log.files import NO_SPACE, PASSING, Files
from mainstem.kernel.log.journal import (
    SEAL_FRAME_BYTES,
    Append,
    BatchAppend,
    JournalFile,
    JournalWriter,
    Round,
)
from mainstem.kernel.log.layout import (
    FILE_HEAD,
    FRAME_HEAD_BYTES,
    ROUND_FRAME_BYTES,
    FrameKind,
    snapshot_name,
)
from mainstem.kernel.log.manifest import Manifest, SnapshotEntry
from mainstem.kernel.log.places import Place, Places, PlaceTable, bytes_of, find_across
from mainstem.kernel.log.reader import BodyReader
from mainstem.kernel.log.recover import Recovered, Replay, recover
from mainstem.kernel.log.sidecar import Sidecar
from mainstem.kernel.log.snapshot import SnapshotWriter
from mainstem.model.batch import leader_epoch
from mainstem.model.errors import BodyGone, CorruptFile, DiskFull, StorageFailed
from mainstem.model.logs import Seldom, get_log
from mainstem.model.meters import Histogram
from mainstem.model.ports import Buffer, Disk, File
from mainstem.model.slices import Chunk

events = get_log(__name__)

# Rounds beyond this size gain less from a file filled with zeros than the zeros cost.
LARGE_ROUND = 128 << 10
# One answer to a reader holds no more: each batch takes the loop some microseconds, however small it is.
MAX_BATCHES_SENT = 2048

Done = Callable[[Append], None]
Answer = TypeVar("Answer")
Position = tuple[int, int]  # file id, position
Post = Callable[[Callable[[Any], None], Any], object]
# What an append takes besides its payload when it is alone in its round.
APPEND_OVERHEAD_BYTES = FRAME_HEAD_BYTES + ROUND_FRAME_BYTES
_APPEND_OVERHEAD_BYTES = APPEND_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class LogOptions:
    file_bytes: int = 256 << 20
    file_frames: int = 500_000
    # The last part of the last file: only what frees space is let in there.
    reserve_bytes: int = 64 << 20
    # Of the newest files, merged or not; older ones leave the page cache, see cached.py.
    cached_bytes: int = 512 << 20
    lag_bytes: int = 2 << 30  # so many more while a consumer that fell behind reads there


class Log:
    """One per data folder. `post(function, argument)` must run function(argument) on the owner's thread."""

    def __init__(
        self,
        recovered: Recovered,
        options: LogOptions,
        post: Post,
        on_failure: Callable[[BaseException], None],
        housekeeper: Executor | None = None,
    ) -> None:
        """`housekeeper` runs file work in order, off the owner's thread; a thread of its own by default."""
        self.files: Files = recovered.files
        self.warnings = recovered.warnings
        self._options = options
        self._reserve = min(options.reserve_bytes, options.file_bytes // 4)
        self._slack = self._reserve // 16  # the last of it: for the few frames that nobody asks room for
        self._seldom = Seldom(events)
        self._no_space = False  # the last attempt to make a file failed for want of space
        # Oldest first, the active file's table last: one tuple, so that readers on other threads never see a
        # file twice or not at all while it is being rolled.
        self._table = recovered.table
        self._tables: tuple[Places, ...] = (*recovered.sealed, recovered.table)
        self._active = recovered.active
        self._synced: Position = (recovered.active.file_id, recovered.active.position)
        self._pending_bytes = 0
        # What fits into the active file for certain, as of the last round, with all that is pending.
        self._sure_bytes = 0
        # Appends so far, and how many of them are on disk: who notes the first can wait for the second.
        self.submitted = 0
        self.settled = 0
        self.bytes_written = 0  # since start, frames and heads included
        self.bytes_sent = 0  # since start, of batches: whoever sends them adds
        self._round_bytes = 0.0  # of a round, on average lately
        self.files.fill_pays = lambda: self._round_bytes < LARGE_ROUND
        self.rounds_written = 0
        self.reader = BodyReader(self._open_body)
        recovered.active.file.read_only_what_is_asked()
        self.reader.use_written(recovered.active.file_id, recovered.active.file, recovered.active.position)
        self._retired: tuple[Places, ...] = tuple(recovered.retired)
        self._note_files(self._tables)
        self._housekeeper = housekeeper or ThreadPoolExecutor(1, "housekeeper")
        self._closed = False
        self.cached = CachedFiles(options.cached_bytes, options.file_bytes, options.lag_bytes)
        self._preparing: Future[None] | None = None
        # The housekeeper's: finished, not yet in the manifest.
        self._unnamed_seals: list[tuple[int, int]] = []
        self._on_failure = on_failure
        self.on_synced: Callable[[Round], None] | None = None  # after every round, before anyone is told
        self.on_sealed: Callable[[int], None] | None = None  # a file is finished and named so
        self._post = post
        self._writer = JournalWriter(
            recovered.active,
            max_frames=options.file_frames,
            supply=self.files,
            post=post,
            on_round=self._on_round,
            on_failure=on_failure,
            round_number=recovered.round_number,
        )
        self._writer.is_unread = self.cached.is_unread

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        options: LogOptions,
        replay: Replay,
        post: Post,
        on_failure: Callable[[BaseException], None],
        new_id: Callable[[], str],
    ) -> Log:
        return cls(recover(disk, folder, options.file_bytes, replay, new_id), options, post, on_failure)

    def start(self, after_turn: Callable[[Callable[[], None]], object] | None = None) -> None:
        """`after_turn(call)` runs call once the owner's present turn is over; without it, at once."""
        if after_turn is not None:
            self._writer.after_turn = after_turn
        self._writer.start()
        self.prepare()

    def close(self) -> None:
        """Everything appended is on disk, and its rounds are posted, when this returns."""
        self._writer.close()
        self._closed = True
        self.files.close()
        self._housekeeper.shutdown()

    def run_pending(self) -> None:
        """Write what was appended, on this thread: for owners that do not `start` (tests, simulations)."""
        self._writer.run_pending()

    @property
    def sync_seconds(self) -> Histogram:
        """How long each round took until it was on disk; the writer's thread counts."""
        return self._writer.sync_seconds

    # --- append --------------------------------------------------------------------------------

    @property
    def pending_bytes(self) -> int:
        """In memory, on the way to the disk."""
        return self._pending_bytes

    def check_room(self, size: int, *, essential: bool = False, frees_space: bool = False) -> None:
        """Refuse before an offset is given: what is admitted here will find its place on disk.

        The reserve is for what is `essential`, and its last quarter only for what frees space: whoever goes
        on committing offsets on a full disk cannot keep it from being emptied.
        Everything pending may go to the next file together, and the rest of this one be lost: hence `max`.
        """
        if self.has_room(size):
            return
        active = self._active
        room = max(active.capacity - active.position, self.files.next_capacity - FILE_HEAD.size)
        room -= self._pending_bytes + size + APPEND_OVERHEAD_BYTES + SEAL_FRAME_BYTES
        kept = self._slack if frees_space else self._reserve // 4 if essential else self._reserve
        if room >= kept or self._grows(size):
            return
        # No file is ready: either there is no space, or it is being made and will be there in a moment.
        free = self.files.disk.free_bytes(self.files.folder)
        if free >= self._options.file_bytes:
            self.prepare()
        if self._no_space or free < self._options.file_bytes + self._reserve:
            raise DiskFull(f"no space for another journal file in {self.files.folder}")

    def has_room(self, size: int) -> bool:
        """For certain, in the file that is being written; False says nothing yet."""
        return self._pending_bytes + size + _APPEND_OVERHEAD_BYTES <= self._sure_bytes

    def _grows(self, size: int) -> bool:
        """A file larger than the usual size is made on the spot for what does not fit a usual one."""
        return size > self._options.file_bytes // 2 and (
            self.files.disk.free_bytes(self.files.folder) > size + self._options.reserve_bytes
        )

    def append_batch(
        self,
        partition: int,
        batch: Buffer,
        base: int,
        last: int,
        max_timestamp_ms: int,
        done: Done | None,
        early: bool = False,
    ) -> bool:
        """A batch whose offsets are set, base..last. Says whether it was copied: if not, it must stay as it
        is until `done`.

        With `early`, `done` does not wait for the disk: a power cut may take the batch back.
        """
        self._pending_bytes += _APPEND_OVERHEAD_BYTES + len(batch)
        self.submitted += 1
        append = BatchAppend(partition, batch, base, last, max_timestamp_ms, done, early)
        self._writer.submit(append)
        return append.stage is not None

    def append_delta(self, section: int, payload: bytes, done: Done | None) -> None:
        self._submit(Append(FrameKind.DELTA, section, payload, (), done))

    def append_atomic(self, entries: list[Entry], done: Done | None) -> None:
        """All of the entries or none of them survive a crash."""
        payload, places = pack_atomic(entries)
        for place in places:
            if place.body is not None:
                self._name_body(place.body)
        self._submit(Append(FrameKind.ATOMIC, 0, payload, places, done))

    def _name_body(self, body: tuple[int, int]) -> None:
        """From now on no merge may lose this body, though the link to it is not on disk yet."""
        if self.reader.current(body)[0] not in self._file_ids:
            raise BodyGone(f"no body at {body[0]}:{body[1]}: it moved or went; look up its place again")
        self._table.targets.add(body)

    def _submit(self, append: Append) -> None:
        self._pending_bytes += APPEND_OVERHEAD_BYTES + len(append.payload)
        self.submitted += 1
        self._writer.submit(append)

    def _on_round(self, done: Round) -> None:
        if done.sealed is not None:
            self._rolled(done.sealed, done.file)
        appends = done.appends
        self._pending_bytes -= done.bytes - ROUND_FRAME_BYTES + ROUND_FRAME_BYTES * len(appends)
        self._sure_bytes = done.file.capacity - done.end - self._reserve - SEAL_FRAME_BYTES
        if done.plain:
            self._table.add_batches(appends)  # type: ignore[arg-type]
        else:
            for append in appends:
                self._add_places(append)
        self.settled += len(appends)
        self.bytes_written += done.bytes
        self._round_bytes += (done.bytes - self._round_bytes) / 64
        self.rounds_written += 1
        if done.direct:
            # Whoever reads it gets it from the disk: it has to be checked.
            self.reader.distrust(done.file.file_id)
        for file_id, position, size in self.cached.written(done.bytes, done.end):
            # The same for those that bring its pages back.
            self.reader.distrust(file_id)
            self.keep_house(partial(self._uncache, file_id, position, size))
        try:
            if self.on_synced is not None:
                self.on_synced(done)
            for append in appends:
                if append.done is not None:
                    append.done(append)
        except BaseException as error:
            # The state in memory lacks something that is on disk. The next snapshot would lose it for good.
            self._fail(StorageFailed(f"what is on disk could not be taken into the state: {error!r}"))
            raise
        # Last: a snapshot that is begun by one of those above must not claim what follows it.
        self._synced = (done.file.file_id, done.end)
        if done.stage is not None:
            self._writer.give_back(done.stage)

    def _add_places(self, append: Append) -> None:
        if isinstance(append, BatchAppend):
            self._table.add_batches([append])
        for place in append.places:
            self._table.add(
                place.partition,
                place.base,
                place.last,
                append.position + place.at,
                place.size,
                place.max_timestamp_ms,
                place.link,
                -1 if place.link else leader_epoch(append.payload, place.at),
            )
            if place.body is not None:
                self._table.targets.add(place.body)

    # --- files ---------------------------------------------------------------------------------

    def _rolled(self, sealed: JournalFile, active: JournalFile) -> None:
        self._table = PlaceTable(active.file_id)
        self._tables = (*self._tables, self._table)
        self._file_ids.add(active.file_id)
        self._active = active
        active.file.read_only_what_is_asked()
        self.reader.use_written(active.file_id, active.file, 0)
        self.keep_house(partial(self._finish_sealed, sealed.file_id, sealed.position))
        self.cached.finished(sealed.file_id, sealed.position)
        self.prepare()

    def _uncache(self, file_id: int, position: int, size: int) -> None:
        self.files.uncache(file_id, position, size)
        # What was read until now may have been checked in pages that have just gone.
        self._post(self.reader.distrust, file_id)

    def _finish_sealed(self, file_id: int, size: int) -> None:
        self._unnamed_seals.append((file_id, size))
        self._name_seals()

    def _name_seals(self) -> None:
        """Put finished files into the manifest; on a full disk that has to wait until something was freed."""
        while self._unnamed_seals:
            file_id, size = self._unnamed_seals[0]
            try:
                self.files.seal(file_id, size)
            except OSError as error:
                self._tolerate(error, "no space to note that a journal file is finished")
                return
            self._unnamed_seals.pop(0)
            if self.on_sealed is not None:
                self.on_sealed(file_id)

    def finish_file(self) -> bool:
        """Full or not, so that what lies in it can be merged. False: there is nothing in it."""
        if self._active.frames > 1 and not self._no_space:  # not just the round that it began with
            self._writer.leave()
        return self._active.frames > 1

    def prepare(self) -> None:
        """Have the next file made in the background, unless it is there or being made."""
        wanted = not self.files.next_capacity or (not self.files.next_filled and self.files.fill_pays())
        if wanted and (self._preparing is None or self._preparing.done()):
            self._preparing = self.keep_house(self._prepare)

    def _prepare(self) -> None:
        try:
            self.files.prepare_next(zero=True)
            self._no_space = False
        except OSError as error:
            self._no_space = error.errno in NO_SPACE
            self._tolerate(error, "no space for the next journal file")
        self._name_seals()

    def _tolerate(self, error: OSError, message: str) -> None:
        if error.errno not in PASSING:
            raise error
        self._seldom.warning(message, folder=self.files.folder, why=str(error))

    def background(self, work: Callable[[], None]) -> Future[None]:
        """Run file work in order, off the owner's thread. What it raises is the caller's, except for
        StorageFailed: after that nobody can know what the disk holds."""

        def guarded() -> None:
            try:
                work()
            except StorageFailed as error:
                self._fail(error)
                raise

        return self._housekeeper.submit(guarded)

    def keep_house(self, work: Callable[[], None]) -> Future[None] | None:
        """The log's own file work: what it raises ends the process.

        Nothing is begun once the log is closed: recovery takes up what was left undone.
        """

        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self._fail(error)

        try:
            return None if self._closed else self._housekeeper.submit(guarded)
        except RuntimeError:  # closed between the look and the call
            return None

    def _fail(self, error: BaseException) -> None:
        self._writer.stop()
        self._on_failure(error)

    def _open_body(self, file_id: int) -> File:
        file = self.files.open_body(file_id)
        file.read_only_what_is_asked()
        return file

    @property
    def no_space(self) -> bool:
        return self._no_space  # for the next journal file, when that was last tried

    @property
    def sealed(self) -> tuple[Places, ...]:
        """Indexes of finished files, oldest first."""
        return self._tables[:-1]

    @property
    def active_table(self) -> PlaceTable:
        return self._table

    @property
    def retired(self) -> tuple[Places, ...]:
        """Files whose places are found elsewhere now, but whose bodies links may still name."""
        return self._retired

    def use_sidecars(self, sidecars: list[Sidecar]) -> None:
        """Each takes the place of its own file's index in memory: what lies between them keeps its place."""
        ready = {sidecar.file_id: sidecar for sidecar in sidecars}
        tables = tuple(ready.get(places.file_id, places) for places in self._tables)
        self._note_files(tables)
        self._tables = tables

    def replace_sealed(
        self, gone: set[int], new: list[Places], retired: tuple[Places, ...] | None = None
    ) -> None:
        """After a merge that the manifest knows of: `new` instead of `gone`, in the order of the manifest.

        `retired` are those files out of use that must still be read from; None leaves them as they are.
        """
        known = self._file_ids
        kept = [places for places in self._tables[:-1] if places.file_id not in gone]
        if new:
            manifest = self.files.manifest
            named = [run.file_id for run in manifest.runs] + [one.file_id for one in manifest.journals]
            order = {file_id: at for at, file_id in enumerate(named)}
            kept = sorted((*kept, *new), key=lambda places: order[places.file_id])
        if retired is not None:
            self._retired = retired
        # Where bodies went is known before anyone can find a place that needs it.
        tables = (*kept, self._table)
        self._note_files(tables)
        self._tables = tables
        for file_id in known - self._file_ids:
            self.reader.forget(file_id)

    def _note_files(self, tables: tuple[Places, ...]) -> None:
        moved = {
            (old_file, old_position): (places.file_id, position)
            for places in (*self._retired, *tables)
            for old_file, old_position, position in places.moved
        }
        self.reader.use_moved(moved)
        self._file_ids = {places.file_id for places in (*self._retired, *tables)}

    # --- read ----------------------------------------------------------------------------------

    def places(
        self, partition: int, offset: int, max_bytes: int, upto: int, *, wait: bool = False
    ) -> list[Place]:
        """Places that hold offsets from `offset` to below `upto`, together no more than max_bytes.

        One at least if there is any, however large: a reader must get on.
        """
        tables = self._tables
        span = tables[-1].span(partition)
        if span is not None and span.first_offset <= offset:
            found = tables[-1].find(partition, offset, max_bytes, wait)
        else:
            found = find_across(tables, partition, offset, max_bytes, wait)
        while found and found[-1].base >= upto:
            found.pop()
        # The search stops at the batch that reaches max_bytes: only that one can be too much.
        if len(found) > 1 and bytes_of(found) > max_bytes:
            found.pop()
        self.cached.was_read_in(found[0].file_id if found else 0)
        return found

    def read(
        self, partition: int, offset: int, max_bytes: int, upto: int, *, wait: bool = False
    ) -> list[Buffer]:
        """Whole batches, the first of which holds `offset`. Raises WouldBlock where wait=False would."""
        self.cached.was_read()

        def work() -> list[Buffer]:
            places = self.places(partition, offset, max_bytes, upto, wait=wait)
            return self.reader.batches(places, wait, max_bytes) if places else []

        return self.while_files_change(work)

    def chunks(
        self, partition: int, offset: int, max_bytes: int, upto: int, *, wait: bool = False
    ) -> tuple[list[Chunk], int]:
        """As `read`, for sending: batches one behind the other are one chunk, which may be a slice of their
        file. And the offset after the last, 0 if there is none."""
        self.cached.was_read()
        if not wait:  # on the owner's thread: no file changes meanwhile
            return self._chunks(partition, offset, max_bytes, upto, wait)
        return self.while_files_change(lambda: self._chunks(partition, offset, max_bytes, upto, wait))

    def _chunks(
        self, partition: int, offset: int, max_bytes: int, upto: int, wait: bool
    ) -> tuple[list[Chunk], int]:
        places = self.places(partition, offset, max_bytes, upto, wait=wait)
        if not places:
            return [], 0
        if len(places) > MAX_BATCHES_SENT:
            del places[MAX_BATCHES_SENT:]
        find = self.reader.joined if wait else self.reader.chunks
        found, count = find(places, max_bytes)
        return found, places[count - 1].last + 1 if count else 0

    def while_files_change(self, work: Callable[[], Answer]) -> Answer:
        """For look-ups on another thread than the owner's: again, if a merge took files away meanwhile."""
        while True:
            tables = self._tables
            try:
                return work()
            except CorruptFile:
                if tables is self._tables:
                    raise

    def first_at_or_after(self, partition: int, timestamp_ms: int) -> Place | None:
        """The first place, in offset order, whose batch reaches the timestamp. May wait for the disk."""
        for places in self._tables:
            span = places.span(partition)
            if span is not None and span.max_timestamp_ms >= timestamp_ms:
                return places.find_time(partition, timestamp_ms, True)
        return None

    def max_timestamp_ms(self, partition: int) -> int | None:
        spans = [span for places in self._tables if (span := places.span(partition))]
        return max((span.max_timestamp_ms for span in spans), default=None)

    def next_offset(self, partition: int) -> int:
        """The offset after the last place of a partition, 0 if it has none."""
        spans = [span for places in self._tables if (span := places.span(partition))]
        return max((span.last_offset + 1 for span in spans), default=0)

    def size_bytes(self, partition: int) -> int:
        return sum(span.total_bytes for places in self._tables if (span := places.span(partition)))

    def offset_keeping(self, partition: int, keep_bytes: int) -> int:
        """The greatest offset from which on the partition still has `keep_bytes`; may wait for the disk.

        Exact to the batch in files that are being written, to the file's share in those that are finished.
        """
        for places in reversed(self._tables):
            if (span := places.span(partition)) is None:
                continue
            if span.total_bytes < keep_bytes:
                keep_bytes -= span.total_bytes
                continue
            if not isinstance(places, PlaceTable):
                return span.first_offset
            for place, _ in places.rows(partition, newest_first=True):
                keep_bytes -= place.size
                if keep_bytes <= 0:
                    return place.base
        return 0

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
        self.files.delete_names(snapshot_name(gone.number) for gone in old)
