"""The set of files that make up a log, and the manifest that says so.

All changes go through `Files.change`, which writes the manifest before anyone acts on the change. It is
called by the writer's thread (when a file fills up early) and the housekeeper's: one change at a time. The
owner's thread never waits for one, since it takes only the lock that guards what is in memory.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from mainstem.kernel.log.journal import JournalFile
from mainstem.kernel.log.layout import (
    FILE_HEAD,
    FileKind,
    body_name,
    file_head,
    journal_name,
    places_name,
    run_name,
    snapshot_name,
)
from mainstem.kernel.log.manifest import JournalEntry, Manifest, write_manifest
from mainstem.model.errors import StorageFailed
from mainstem.model.ports import Disk, File

# A new file is filled with zeros in pieces of this size: a sync into bytes that were written before is
# about twice as fast as one that must also record that the bytes exist now.
ZERO_PIECE = bytes(1 << 20)
# Between two pieces, so that filling never takes more than a small share of the disk from those who write:
# about 50 MB/s. Who fills a file faster than that gets on well without zeros.
FILL_PAUSE_S = 0.02
# The kernel may keep this much of a file in one piece.
LARGEST_PAGE = 2 << 20
# The errors that a full disk gives: a state to live with. Any other means that the disk cannot be trusted.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Of background work, which is tried again. Nor is the disk to blame where no descriptor is left.
PASSING = (*NO_SPACE, errno.EMFILE, errno.ENFILE)


class Files:
    """Creates, opens and drops files under the manifest's name."""

    def __init__(self, disk: Disk, folder: str, manifest: Manifest, file_bytes: int) -> None:
        self.disk = disk
        self.folder = folder
        self.manifest = manifest
        self.file_bytes = file_bytes
        self._changing = threading.Lock()  # held while a manifest is written and synced
        self._lock = threading.Lock()  # of what is in memory; always the inner one
        self._preparing = threading.Lock()
        # Usually one. A power cut may leave two: taken but not used yet, and the one made to follow it.
        self._ready: deque[JournalFile] = deque()
        self._pins = 0
        self._doomed: set[str] = set()  # files to delete once nobody copies them
        self._uncut: dict[int, int] = {}  # finished files to cut to this size once nobody copies them
        # Set while the writer waits for a file: zeros are a luxury then.
        self._hurry = threading.Event()
        # Asked before every piece of zeros; the owner of the log knows what is being written.
        self.fill_pays: Callable[[], bool] = lambda: True
        self._closed = False

    def change(self, edit: Callable[[Manifest], Manifest]) -> Manifest:
        """OSError: it may be tried again, and nothing has changed. Whatever else fails ends the process."""
        with self._changing:
            changed = edit(self.manifest)
            try:
                write_manifest(self.disk, self.folder, changed)
            except OSError as error:
                if error.errno in PASSING:
                    raise
                raise StorageFailed(f"{self.folder}: the manifest could not be written: {error}") from error
            with self._lock:
                # Ids may have been given out meanwhile: a later manifest names what they are for.
                next_file_id = max(changed.next_file_id, self.manifest.next_file_id)
                self.manifest = replace(changed, next_file_id=next_file_id)
                return self.manifest

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def open_journal(self, file_id: int) -> File:
        return self.disk.open(self.path(journal_name(file_id)))

    def open_body(self, file_id: int) -> File:
        """A journal file or a run, whichever the manifest says it is."""
        manifest = self.manifest
        retired = any(e.file_id == file_id and e.kind == FileKind.RUN for e in manifest.retired)
        is_run = retired or any(entry.file_id == file_id for entry in manifest.runs)
        return self.disk.open(self.path(run_name(file_id))) if is_run else self.open_journal(file_id)

    # --- the next journal file -----------------------------------------------------------------

    @property
    def next_capacity(self) -> int:
        """Bytes that the prepared file will take; 0 if none is ready."""
        try:
            return self._ready[0].capacity
        except IndexError:  # the writer may take it at any moment
            return 0

    @property
    def next_filled(self) -> bool:
        try:
            return self._ready[0].filled
        except IndexError:
            return False

    def prepare_next(self, *, zero: bool) -> None:
        """Have a file ready before it is needed; OSError when the disk has no room for it.

        It counts as ready once its space is taken; filling it with zeros comes after that.
        """
        with self._preparing:
            if not self._ready:
                self._ready.append(self._create_journal())
            if zero and not self._ready[0].filled:
                self._fill(self._ready[0])

    def adopt_next(self, ready: JournalFile) -> None:
        """A file that recovery found prepared and unused; they are used in the order of the manifest."""
        self._ready.append(ready)

    def close(self) -> None:
        """Whatever is being prepared need not be finished nicely."""
        self._closed = True
        self._hurry.set()

    def take_next(self) -> JournalFile:
        """The prepared file, or a new one made on the spot. Called by the writer when a file is full."""
        self._hurry.set()
        try:
            # Taken under the lock: nobody may fill a file with zeros that is being written.
            with self._preparing:
                return self._ready.popleft() if self._ready else self._create_journal()
        finally:
            if not self._closed:
                self._hurry.clear()

    def _create_journal(self) -> JournalFile:
        file_id = self._new_file_id()
        path = self.path(journal_name(file_id))
        file = self.disk.open(path, create=True)
        try:
            file.truncate(0)
            file.allocate(self.file_bytes)
            file.pwritev([file_head(FileKind.JOURNAL, file_id)], 0)
            file.fsync()
            self.disk.sync_folder(self.path("files"))
            self.change(
                lambda now: replace(
                    now, journals=(*now.journals, JournalEntry(file_id, capacity=self.file_bytes))
                )
            )
        except OSError:
            # The manifest does not name it, or this would be StorageFailed.
            file.close()
            self.disk.remove(path)
            raise
        return JournalFile(file_id, file, FILE_HEAD.size, self.file_bytes)

    def new_file_ids(self, count: int) -> list[int]:
        """Ids for files that a merge may make."""
        return [self._new_file_id() for _ in range(count)]

    def _new_file_id(self) -> int:
        """Ids are given out in memory and become durable with the manifest that names the file."""
        with self._lock:
            file_id = self.manifest.next_file_id
            self.manifest = replace(self.manifest, next_file_id=file_id + 1)
            return file_id

    def _fill(self, ready: JournalFile) -> None:
        while not ready.filled:
            if self._hurry.is_set() or not self.fill_pays():
                return
            at = max(ready.filled_to, FILE_HEAD.size)
            piece = ZERO_PIECE[: ready.capacity - at]
            ready.file.pwritev([piece], at)
            # Piece by piece, so that a round never waits behind the whole file.
            ready.file.fdatasync()
            ready.filled_to = at + len(piece)
            self._hurry.wait(FILL_PAUSE_S)

    # --- ends of files -------------------------------------------------------------------------

    def seal(self, file_id: int, size: int) -> None:
        """Note the size of a finished journal file, and give back the space behind it."""

        def edit(manifest: Manifest) -> Manifest:
            return replace(
                manifest,
                journals=tuple(
                    JournalEntry(file_id, size) if entry.file_id == file_id else entry
                    for entry in manifest.journals
                ),
            )

        self.change(edit)
        with self._lock:
            # Whoever copies it now may have been told that it is not finished, and counts on all of it.
            if self._pins:
                self._uncut[file_id] = size
                return
        self._cut(file_id, size)

    def _cut(self, file_id: int, size: int) -> None:
        file = self.open_journal(file_id)
        try:
            if file.size() > size:
                file.truncate(size)
        finally:
            file.close()

    def uncache(self, file_id: int, position: int, size: int) -> None:
        """Of a finished file that is old enough to be read from the disk, if at all; it may be gone."""
        # What is kept in one piece and only partly in the range would stay: so some that lies before it, too.
        start = max(position - LARGEST_PAGE, 0)
        with contextlib.suppress(OSError):  # it is advice
            file = self.open_body(file_id)
            try:
                file.uncache(start, position + size - start)
            finally:
                file.close()

    def drop(self, file_ids: set[int]) -> None:
        """Forget files, then delete them: a crash in between leaves only files that nobody names."""

        def edit(manifest: Manifest) -> Manifest:
            return replace(
                manifest,
                journals=tuple(e for e in manifest.journals if e.file_id not in file_ids),
                runs=tuple(e for e in manifest.runs if e.file_id not in file_ids),
                retired=tuple(e for e in manifest.retired if e.file_id not in file_ids),
            )

        self.change(edit)
        self.delete(file_ids)

    def delete(self, file_ids: Iterable[int]) -> None:
        """Delete files that the manifest does not name any more, unless someone copies them right now."""
        self.delete_names(_names(file_ids))

    def delete_unnamed(self, file_ids: Iterable[int]) -> None:
        """Delete files that no manifest ever named: nobody can be copying them."""
        self._remove(_names(file_ids))

    def delete_names(self, names: Iterable[str]) -> None:
        with self._lock:
            self._doomed.update(names)
            if self._pins:
                return
            doomed, self._doomed = self._doomed, set()
        self._remove(sorted(doomed))

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self.disk.remove(self.path(name))

    @contextlib.contextmanager
    def pinned(self) -> Iterator[Manifest]:
        """No file of the manifest that this gives is deleted, or cut, before the block ends."""
        with self._lock:
            self._pins += 1
            manifest = self.manifest
        try:
            yield manifest
        finally:
            with self._lock:
                self._pins -= 1
                uncut: dict[int, int] = {}
                if not self._pins:
                    uncut, self._uncut = self._uncut, uncut
            for file_id, size in uncut.items():
                with contextlib.suppress(OSError):  # it may be gone; else it takes some space until it goes
                    self._cut(file_id, size)
            self.delete_names(())

    def remove_unnamed(self) -> list[str]:
        """Delete leftovers: files in our folders that the manifest does not name.

        Only before the log serves: later there are files that are being made and not yet named.
        """
        manifest = self.manifest
        named = {journal_name(entry.file_id) for entry in manifest.journals}
        named |= {run_name(entry.file_id) for entry in manifest.runs}
        named |= {places_name(entry.file_id) for entry in manifest.journals}
        named |= {places_name(entry.file_id) for entry in manifest.runs}
        for retired in manifest.retired:
            named |= {body_name(retired.file_id, retired.kind), places_name(retired.file_id)}
        named |= {snapshot_name(entry.number) for entry in manifest.snapshots}
        removed = []
        for folder in ("files", "snapshots"):
            for name in self.disk.list(self.path(folder)):
                path = f"{folder}/{name}"
                if path not in named and name.endswith((".journal", ".run", ".places", ".state", ".new")):
                    self.disk.remove(self.path(path))
                    removed.append(name)
        return removed


def _names(file_ids: Iterable[int]) -> Iterator[str]:
    """All that a file with such an id may be called."""
    for file_id in file_ids:
        places = places_name(file_id)
        yield from (journal_name(file_id), run_name(file_id), places, f"{places}.new")
