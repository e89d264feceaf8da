"""A lake on disk: a folder of Parquet that plain readers may read at any moment. On the driver.

    orders/
      day=2026-11-15/b00000017-1f2e3d4c-0000.parquet     visible rows; files never change once they are here
      _common_metadata                                   all columns, for readers that ask for no merging
      _lake/state.json                                   what is in the lake, replaced in one step
      _lake/lock                                         held by the one who writes
    .orders.lake/                                        beside it, so that no pattern of names finds it:
      staging/                                           a batch that is being written
      swap/                                              a folder that is about to be exchanged
      old/                                               folders that were, for those who list them just now

The rule: a listing holds each row once, whenever it is made.

- A batch is written to staging. Then `state.json` says which files it has, and where they go: that is the
  moment from which the batch counts. Then the files are renamed one by one. Whoever comes next, after a
  crash, renames those that are left, and only then `held` says that they can be read.
- A batch that Spark repeats is known by (query, batch). One of another query must begin where the lake ends.
- Folders of a partition are replaced whole, by exchanging two names in one step of the kernel: the old folder
  with many small files, and a new one with links to what stays and the files that replace the others. The old
  one stays for some minutes under another name: a listing that had begun ends as it would have. Who listed
  before and opens a file after the exchange is told that it is gone, and lists again.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from mainstem.model.errors import InvalidRequest, NotSupported, StorageFailed

Positions = dict[str, dict[str, int]]  # the next offset by topic and partition, as Spark's source writes it

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
LISTING_S = 600.0  # no listing of a folder takes longer


class State(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    query: str = ""  # the id of the query that wrote last
    batch: int = -1  # and its last batch
    positions: Positions = {}  # up to which all of it was written
    held: Positions = {}  # up to which all of it can be read: behind `positions` while files are moved
    rows: int = -1  # of the last batch; unknown in lakes of earlier versions
    moves: list[tuple[str, str]] = []  # of the last batch: from staging to where they stay
    columns: dict[str, object] = {}  # of a row without partition columns: Spark's schema as JSON
    fields: dict[str, object] = {}  # of a value, the same way; empty for bytes
    format: str = "raw"
    partition_by: list[str] = []


class DataFile(NamedTuple):
    path: Path
    size_bytes: int
    changed_s: float


class Lake:
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).resolve()  # so that what lies beside it is where its `..` leads
        self._own = self.folder / "_lake"
        work = _work_folder(self.folder)
        self.staging = work / "staging"
        self._swap = work / "swap"
        self._old = work / "old"
        self._state = self._own / "state.json"

    @property
    def exists(self) -> bool:
        return self._state.exists()

    def state(self) -> State:
        if not self._state.exists():
            return State()
        try:
            found = msgspec.json.decode(self._state.read_bytes(), type=State)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"{self._state} cannot be read: {error}") from None
        if found.version != 1:
            raise InvalidRequest(f"{self.folder} was written by a newer Mainstem (version {found.version})")
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """By one writer at a time, on this machine."""
        self._own.mkdir(parents=True, exist_ok=True)
        with (self._own / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidRequest(f"another job writes to {self.folder}") from None
            yield

    def recover(self) -> State:
        """Bring to an end what was begun, and clear away what nobody needs. Under the lock."""
        state = self.state()
        if state.moves:
            self._move(state.moves)
            state = self._settled(state)
        for leftover in (self.staging, self._swap):
            if leftover.exists():
                shutil.rmtree(leftover)
        self._forget_old()
        return state

    def publish(self, state: State) -> State:
        """`state` tells of a batch in staging, with its moves. Once it is saved, the batch is in the lake."""
        staged = [Path(os.path.normpath(self.folder / name)) for name, _ in state.moves]
        for file in staged:
            _sync(file)
        _sync_folders({file.parent for file in staged}, self.staging.parent)
        self._save(state)
        self._move(state.moves)
        return self._settled(state)

    def put_common_metadata(self, file: Path) -> None:
        file.replace(self.folder / "_common_metadata")

    def leaves(self) -> list[Path]:
        """Folders with rows in them."""
        found = []
        for folder, inner, files in os.walk(self.folder):
            inner[:] = [name for name in inner if not name.startswith((".", "_"))]
            if any(is_data(name) for name in files):
                found.append(Path(folder))
        return sorted(found)

    def files(self, leaf: Path) -> list[DataFile]:
        found = []
        for entry in os.scandir(leaf):
            if is_data(entry.name):
                about = entry.stat()
                found.append(DataFile(Path(entry.path), about.st_size, about.st_mtime))
        return sorted(found)

    def workspace(self) -> Path:
        """An empty place for new files, on the lake's own disk."""
        shutil.rmtree(self._swap, ignore_errors=True)
        self._swap.mkdir(parents=True)
        return self._swap

    def replace(self, leaf: Path, old: Sequence[Path], new: Sequence[Path]) -> None:
        """In one step `leaf` has the files `new` instead of `old`; the others stay as they are."""
        gone = {path.name for path in old}
        fresh = self._swap / "fresh"
        fresh.mkdir()
        for file in self.files(leaf):
            if file.path.name not in gone:
                os.link(file.path, fresh / file.path.name)
        # Named after what they replace, so that no name is used twice.
        stem = hashlib.sha256(" ".join(sorted(gone)).encode()).hexdigest()[:16]
        for number, path in enumerate(new):
            _sync(path)
            path.rename(fresh / f"c{stem}-{number:04d}.parquet")
        _sync(fresh)
        exchange(fresh, leaf)
        _sync(leaf.parent)
        self._old.mkdir(exist_ok=True)
        fresh.rename(self._old / stem)
        shutil.rmtree(self._swap)

    def _forget_old(self) -> None:
        now_s = time.time()  # noqa: TID251 - beside times of files
        for folder in self._old.iterdir() if self._old.exists() else ():
            if now_s - folder.stat().st_ctime > LISTING_S:
                shutil.rmtree(folder)

    def _settled(self, state: State) -> State:
        done = msgspec.structs.replace(state, moves=[], held=state.positions)
        self._save(done)
        return done

    def _move(self, moves: Sequence[tuple[str, str]]) -> None:
        touched = set()
        for staged, final in moves:
            source, target = self.folder / staged, self.folder / final
            touched.add(target.parent)
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
            elif not target.exists():  # otherwise it was moved before
                raise StorageFailed(
                    f"the last batch of the lake {self.folder} is not whole: {target} is missing, and so is "
                    f"{os.path.normpath(source)}, from where it was to be moved. Put one of them back, or "
                    "archive anew to another path"
                )
        _sync_folders(touched, self.folder)

    def _save(self, state: State) -> None:
        fresh = self._state.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(state))
        _sync(fresh)
        fresh.replace(self._state)
        _sync(self._own)


def _work_folder(folder: Path) -> Path:
    """Files are renamed from there, so it is on the same disk: inside, if the lake is a disk of its own."""
    if folder.exists() and folder.stat().st_dev != folder.parent.stat().st_dev:
        return folder / "_lake"
    return folder.parent / f".{folder.name}.lake"


def is_data(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith((".", "_"))


def next_name(query: str, batch: int, number: int) -> str:
    return f"b{batch:08d}-{query[:8]}-{number:04d}.parquet"


def exchange(one: Path, other: Path) -> None:
    """Each gets the other's name, at the same moment."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        raise NotSupported("this system cannot exchange two folders in one step (renameat2)") from None
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        code = ctypes.get_errno()
        raise NotSupported(f"the file system of {other} cannot exchange two folders: {os.strerror(code)}")


def _sync_folders(leaves: set[Path], top: Path) -> None:
    """With all folders above them up to `top`: one that was just made has a name only in the one above."""
    for folder in leaves | {above for leaf in leaves for above in leaf.parents if above.is_relative_to(top)}:
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)  # noqa: TID251 - the driver's disk, not a broker's
    finally:
        os.close(handle)
