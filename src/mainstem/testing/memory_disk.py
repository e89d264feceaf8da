"""A disk in memory that forgets like a real one: a power cut loses, keeps or tears what was not synced.

POSIX promises little, and this disk promises no more:
- A file's bytes, its size and its name are three things. fsync and fdatasync keep the first two, of one file;
  only a sync of the folder keeps names (a creation, a rename, a removal).
- Until then, each operation is kept or lost on its own, in any combination. A write is kept by sectors of 512
  bytes, and may leave its size behind without its bytes (zeros).
- A rename is all or nothing.

Operations are recorded on `tape`, together with what `mark` puts between them (an acknowledgement, say), so
that a run can be replayed to any point with `play` and cut there with `after_power_cut`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mainstem.model.errors import DataFolderLocked
from mainstem.model.ports import BLOCK_BYTES, Buffer

SECTOR_BYTES = 512


@dataclass(frozen=True, slots=True)
class Write:
    inode: int
    position: int
    data: bytes

    def sectors(self) -> list[Write]:
        """The parts of it that reach the disk on their own."""
        parts = []
        at = 0
        while at < len(self.data):
            room = SECTOR_BYTES - (self.position + at) % SECTOR_BYTES
            parts.append(Write(self.inode, self.position + at, self.data[at : at + room]))
            at += room
        return parts

    def cut(self, start: int, end: int) -> tuple[Write, Write, Write]:
        """What of it lies before, within and behind a part of the file; some of them may be empty."""
        low = min(max(start - self.position, 0), len(self.data))
        high = min(max(end - self.position, low), len(self.data))
        return (
            Write(self.inode, self.position, self.data[:low]),
            Write(self.inode, self.position + low, self.data[low:high]),
            Write(self.inode, self.position + high, self.data[high:]),
        )


@dataclass(frozen=True, slots=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Extend:
    """Room at the end of a file: its size grows, its bytes are zero."""

    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Name:
    """A path begins to name a file. With `old`, that path stops naming it in the same moment."""

    path: str
    inode: int
    old: str = ""


@dataclass(frozen=True, slots=True)
class Unname:
    path: str


@dataclass(frozen=True, slots=True)
class MakeFolder:
    path: str


@dataclass(frozen=True, slots=True)
class SyncFile:
    """Of a whole file, or of what was written to a part of it."""

    inode: int
    start: int = 0
    end: int = 1 << 62


@dataclass(frozen=True, slots=True)
class SyncFolder:
    path: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Not an operation: something the test wants to know the time of."""

    value: object


FileOp = Write | Truncate | Extend
FolderOp = Name | Unname | MakeFolder
Op = FileOp | FolderOp
Recorded = Op | SyncFile | SyncFolder | Mark


class Image:
    """Files and names at one moment."""

    def __init__(self) -> None:
        self.files: dict[int, bytearray] = {}
        self.names: dict[str, int] = {}
        self.folders: set[str] = set()

    def apply(self, op: Op) -> None:
        match op:
            case Write(inode, position, data):
                file = self.files.setdefault(inode, bytearray())
                file.extend(bytes(max(0, position - len(file))))
                file[position : position + len(data)] = data
            case Truncate(inode, size):
                file = self.files.setdefault(inode, bytearray())
                file.extend(bytes(max(0, size - len(file))))
                del file[size:]
            case Extend(inode, size):
                file = self.files.setdefault(inode, bytearray())
                file.extend(bytes(max(0, size - len(file))))
            case Name(path, inode, old):
                self.names.pop(old, None)
                self.names[path] = inode
                self.files.setdefault(inode, bytearray())
            case Unname(path):
                self.names.pop(path, None)
            case MakeFolder(path):
                self.folders.add(path)

    def copy(self) -> Image:
        image = Image()
        image.files = {inode: bytearray(data) for inode, data in self.files.items()}
        image.names = dict(self.names)
        image.folders = set(self.folders)
        return image

    def settle(self) -> None:
        """What is left when the machine starts again: named files in folders that exist, nothing else."""
        self.names = {path: inode for path, inode in self.names.items() if _folder(path) in self.folders}
        named = set(self.names.values())
        self.files = {inode: data for inode, data in self.files.items() if inode in named}


class Fault(Protocol):
    def __call__(self, verb: str, path: str) -> None:
        """Called before each operation ("pwritev", "fsync", ...); raises OSError to make it fail."""


class MemoryFile:
    __slots__ = ("_disk", "inode", "path")

    def __init__(self, disk: MemoryDisk, path: str, inode: int) -> None:
        self._disk = disk
        self.path = path
        self.inode = inode

    def size(self) -> int:
        return len(self._disk.seen.files[self.inode])

    def pread(self, size: int, position: int) -> bytes:
        self._disk.check("pread", self.path)
        return bytes(self._disk.seen.files[self.inode][position : position + size])

    def read_only_what_is_asked(self) -> None:
        """It never does more."""

    def will_need(self, size: int, position: int) -> None:
        """It has it."""

    def pread_cached(self, size: int, position: int) -> bytes | None:
        if not self._disk.all_cached:
            return None
        data = self.pread(size, position)
        return data if len(data) == size else None

    def is_cached(self, size: int, position: int) -> bool:
        return self._disk.all_cached and position + size <= self.size()

    def send(self, socket_fd: int, size: int, position: int) -> int:
        """Takes nothing: it has to be read."""
        return 0

    def pwritev(self, chunks: Sequence[Buffer], position: int) -> None:
        data = b"".join(chunks)
        if data:
            self._disk.check("pwritev", self.path)
            self._disk.take_space(position + len(data) - self.size())
            self._disk.do(Write(self.inode, position, data))

    def write_through(self, chunks: Sequence[Buffer], position: int) -> None:
        self.pwritev(chunks, position)
        size = sum(map(len, chunks))
        self._disk.sync("fdatasync", self.path, SyncFile(self.inode, position, position + size))

    def write_direct(self, blocks: Buffer, position: int) -> bool:
        if position % BLOCK_BYTES or len(blocks) % BLOCK_BYTES:
            raise OSError(errno.EINVAL, "not in whole blocks", self.path)
        self.write_through([blocks], position)
        return True

    def fdatasync(self) -> None:
        self._disk.sync("fdatasync", self.path, SyncFile(self.inode))

    def fsync(self) -> None:
        self._disk.sync("fsync", self.path, SyncFile(self.inode))

    def truncate(self, size: int) -> None:
        self._disk.check("truncate", self.path)
        if size != self.size():
            self._disk.do(Truncate(self.inode, size))

    def allocate(self, size: int) -> None:
        self._disk.check("allocate", self.path)
        if size > self.size():
            self._disk.take_space(size - self.size())
            self._disk.do(Extend(self.inode, size))

    def uncache(self, position: int = 0, size: int = 0) -> None:
        """Nothing: `all_cached` says what is in memory."""

    def close(self) -> None:
        """Nothing: as long as anyone holds the file, it can be read, as with a real descriptor."""


class MemoryDisk:
    """The `Disk` port. `folder` exists, and will survive; everything below it has to be made.

    `ignored` names kinds of sync ("fdatasync", "fsync", "sync_folder") that this disk only pretends to do.
    """

    def __init__(self, folder: str, *, space_bytes: int = 1 << 40, ignored: Collection[str] = ()) -> None:
        self.seen = Image()
        self.seen.folders.add(folder)
        self.synced = self.seen.copy()
        self.pending: list[Op] = []  # done and seen by everybody, not yet safe from a power cut
        self.tape: list[Recorded] = []
        self.space_bytes = space_bytes
        self.fault: Fault | None = None
        self.all_cached = True
        self._ignored = frozenset(ignored)
        self._next_inode = 1
        self._locked: set[str] = set()

    # --- the port ------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.check("open", path)
        inode = self.seen.names.get(path)
        if inode is None:
            if not create or _folder(path) not in self.seen.folders:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            inode = self._next_inode
            self.do(Name(path, inode))
        return MemoryFile(self, path, inode)

    def exists(self, path: str) -> bool:
        return path in self.seen.names or path in self.seen.folders

    def list(self, folder: str) -> list[str]:
        if folder not in self.seen.folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        inside = (path for path in (*self.seen.names, *self.seen.folders) if _folder(path) == folder)
        return sorted(path[len(folder) + 1 :] for path in inside)

    def make_folder(self, path: str) -> None:
        self.check("make_folder", path)
        if path not in self.seen.folders:
            self.do(MakeFolder(path))

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        assert _folder(old) == _folder(new), "a rename between folders needs two syncs"
        if old not in self.seen.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        self.do(Name(new, self.seen.names[old], old))

    def remove(self, path: str) -> None:
        self.check("remove", path)
        if path not in self.seen.names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.do(Unname(path))

    def sync_folder(self, path: str) -> None:
        self.sync("sync_folder", path, SyncFolder(path))

    def free_bytes(self, path: str) -> int:
        named = set(self.seen.names.values())
        return max(0, self.space_bytes - sum(len(self.seen.files[inode]) for inode in named))

    def lock(self, path: str) -> object:
        if path in self._locked:
            raise DataFolderLocked(f"{_folder(path)} is in use")
        self._locked.add(path)
        return _Lock(self._locked, path)

    # --- what operations go through ------------------------------------------------------------

    def check(self, verb: str, path: str) -> None:
        if self.fault is not None:
            self.fault(verb, path)

    def take_space(self, more: int) -> None:
        if more > 0 and more > self.free_bytes(""):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def do(self, op: Op) -> None:
        self.seen.apply(op)
        self.pending.append(op)
        self.tape.append(op)
        if isinstance(op, Name):
            self._next_inode = max(self._next_inode, op.inode + 1)

    def sync(self, verb: str, path: str, sync: SyncFile | SyncFolder) -> None:
        self.check(verb, path)
        if verb not in self._ignored:
            self._sync(sync)
            self.tape.append(sync)

    def _sync(self, sync: SyncFile | SyncFolder) -> None:
        still: list[Op] = []
        for op in self.pending:
            if not _is_kept_by(op, sync):
                still.append(op)
            elif isinstance(op, Write) and isinstance(sync, SyncFile):
                # Memory holds one state of each byte: what is synced of an older write is so for good too.
                before, inside, behind = op.cut(sync.start, sync.end)
                if inside.data:
                    self.synced.apply(inside)
                still += [part for part in (before, behind) if part.data]
            else:
                self.synced.apply(op)
        self.pending = still

    # --- what tests do with it -----------------------------------------------------------------

    def mark(self, value: object) -> None:
        self.tape.append(Mark(value))

    def play(self, recorded: Recorded) -> None:
        """Repeat one recorded operation of another disk that began like this one."""
        if isinstance(recorded, SyncFile | SyncFolder):
            self._sync(recorded)
        elif not isinstance(recorded, Mark):
            self.do(recorded)

    def after_power_cut(self, kept: Iterable[Op] = ()) -> MemoryDisk:
        """The disk that a new start finds: all that was synced, and `kept` of what was pending.

        `kept` is in the order of `pending`; a write may be given in parts (see `Write.sectors`).
        """
        image = self.synced.copy()
        for op in kept:
            image.apply(op)
        image.settle()
        return self._restarted(image, image.copy(), ())

    def after_kill(self) -> MemoryDisk:
        """The disk that a new process finds when only the old process died: all is there, little is safe."""
        return self._restarted(self.seen.copy(), self.synced.copy(), self.pending)

    def _restarted(self, seen: Image, synced: Image, pending: Iterable[Op]) -> MemoryDisk:
        disk = MemoryDisk("", space_bytes=self.space_bytes, ignored=self._ignored)
        disk.seen, disk.synced, disk.pending = seen, synced, [*pending]
        disk._next_inode = self._next_inode
        return disk

    def change(self, path: str, edit: Callable[[bytearray], None]) -> None:
        """Damage a file behind everybody's back."""
        for image in (self.seen, self.synced):
            edit(image.files[image.names[path]])


class _Lock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def __del__(self) -> None:
        self._locked.discard(self._path)


def _is_kept_by(op: Op, sync: SyncFile | SyncFolder) -> bool:
    if isinstance(op, FileOp):
        return isinstance(sync, SyncFile) and op.inode == sync.inode
    return isinstance(sync, SyncFolder) and _folder(op.path) == sync.path


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
