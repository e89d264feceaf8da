"""The real disk behind the `Disk` port."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence

from mainstem.kernel.log.resident import is_resident
from mainstem.model.errors import DataFolderLocked, StorageFailed
from mainstem.model.ports import READ_STEP, Buffer

# pwritev takes at most this many buffers in one call (UIO_MAXIOV on Linux).
MAX_BUFFERS = 1024
# Reads of pages that are not in memory return at once with this flag; absent on kernels without it.
NOWAIT = getattr(os, "RWF_NOWAIT", 0)
# A write with this flag returns once its bytes are on disk, as fdatasync after it would.
DSYNC = getattr(os, "RWF_DSYNC", 0)
# A file that is open with this flag takes whole blocks, and they go past the page cache.
DIRECT = getattr(os, "O_DIRECT", 0)
# In place of a descriptor.
NOT_YET, CANNOT = -1, -2
# Where the kernel does not tell whether a stretch of a file is in memory (before Linux 6.5), it is looked at
# in steps of this size. What is missed in between costs a wait for the disk, and is sent as the disk gives
# it, unchecked. Such gaps are the kernel's, when it is short of memory: what the log itself sends out of
# memory (`uncache`) is not believed afterwards.
PROBE_STEP = 256 << 10


class OsFile:
    """A file descriptor with positions. It closes itself when nobody reads from it any more."""

    __slots__ = ("_direct_fd", "_dsync", "_nowait", "fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self._nowait = bool(NOWAIT)
        self._dsync = bool(DSYNC)
        self._direct_fd = NOT_YET if DSYNC and DIRECT else CANNOT

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def pread(self, size: int, position: int) -> bytes:
        try:
            return self._pread_in_steps(size, position) if size > READ_STEP else self._pread(size, position)
        except OSError as error:
            error.filename = self.path  # which a call by descriptor does not tell
            raise

    def _pread(self, size: int, position: int) -> bytes:
        data = os.pread(self.fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        have = len(data)
        while have < size:
            more = os.pread(self.fd, size - have, position + have)
            if not more:
                break
            parts.append(more)
            have += len(more)
        return b"".join(parts)

    def _pread_in_steps(self, size: int, position: int) -> bytes:
        # No more memory than the file can fill: a size may come from damaged bytes.
        size = max(min(size, self.size() - position), 0)
        buffer = bytearray(size)
        view = memoryview(buffer)
        have = 0
        while have < size:
            got = os.preadv(self.fd, [view[have : have + READ_STEP]], position + have)
            if got == 0:
                return bytes(view[:have])
            have += got
        return buffer  # type: ignore[return-value]  # as in pread_cached

    def read_only_what_is_asked(self) -> None:
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)

    def will_need(self, size: int, position: int) -> None:
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, position, min(size, READ_STEP), os.POSIX_FADV_WILLNEED)

    def pread_cached(self, size: int, position: int) -> bytes | None:
        if not self._nowait:
            return None
        buffer = bytearray(size)
        view = memoryview(buffer)
        try:
            # In steps, too: the kernel asks the disk for all of a read that it refuses.
            for at in range(0, size, READ_STEP):
                step = view[at : at + READ_STEP]
                if os.preadv(self.fd, [step], position + at, NOWAIT) != len(step):
                    return None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._nowait = False
            return None
        # A bytearray is handed out as bytes would be: nobody writes to what was read.
        return buffer  # type: ignore[return-value]

    def is_cached(self, size: int, position: int) -> bool:
        known = is_resident(self.fd, position, size)
        return self._seems_cached(size, position) if known is None else known

    def _seems_cached(self, size: int, position: int) -> bool:
        if not self._nowait:
            return False
        fd, probe, last = self.fd, [bytearray(1)], position + size - 1
        try:
            for at in range(position, last, PROBE_STEP):
                if os.preadv(fd, probe, at, NOWAIT) != 1:
                    return False
            return os.preadv(fd, probe, last, NOWAIT) == 1
        except OSError:
            return False

    def send(self, socket_fd: int, size: int, position: int) -> int:
        try:
            return os.sendfile(socket_fd, self.fd, position, size)
        except OSError:
            return 0

    def pwritev(self, chunks: Sequence[Buffer], position: int) -> None:
        self._write(chunks, position, 0)

    def write_through(self, chunks: Sequence[Buffer], position: int) -> None:
        """One call of the system instead of two, where one can do it: a thread loses the GIL with each."""
        if self._dsync and len(chunks) <= MAX_BUFFERS:
            try:
                self._write(chunks, position, DSYNC)
                return
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                self._dsync = False
        self._write(chunks, position, 0)
        self.fdatasync()

    def write_direct(self, blocks: Buffer, position: int) -> bool:
        if self._direct_fd == NOT_YET:
            try:
                self._direct_fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | DIRECT)
            except OSError:  # the other way is as good, and this file is open already
                self._direct_fd = CANNOT
        if self._direct_fd == CANNOT:
            return False
        try:
            written = os.pwritev(self._direct_fd, [blocks], position, DSYNC)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            self._close_direct()
            self._direct_fd = CANNOT
            return False
        if written < len(blocks):
            self._write([memoryview(blocks)[written:]], position + written, 0)
            self.fdatasync()
        return True

    def _close_direct(self) -> None:
        if self._direct_fd >= 0:
            os.close(self._direct_fd)
            self._direct_fd = NOT_YET

    def _write(self, chunks: Sequence[Buffer], position: int, flags: int) -> None:
        for first in range(0, len(chunks), MAX_BUFFERS):
            part = chunks[first : first + MAX_BUFFERS]
            written = os.pwritev(self.fd, part, position, flags)
            position += written
            missing = sum(map(len, part)) - written
            if missing:
                self._write_rest(part, written, position, flags)
                position += missing

    def _write_rest(self, part: Sequence[Buffer], written: int, position: int, flags: int) -> None:
        """A short write (a signal, a full disk) goes on where it stopped."""
        rest = memoryview(b"".join(part))[written:]
        while rest:
            count = os.pwritev(self.fd, [rest], position, flags)
            if count == 0:
                raise StorageFailed(f"{self.path}: the disk took no more bytes at {position}")
            rest = rest[count:]
            position += count

    def fdatasync(self) -> None:
        os.fdatasync(self.fd)

    def fsync(self) -> None:
        os.fsync(self.fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def allocate(self, size: int) -> None:
        have = self.size()
        if size > have:
            os.posix_fallocate(self.fd, have, size - have)

    def uncache(self, position: int = 0, size: int = 0) -> None:
        with contextlib.suppress(OSError):
            os.posix_fadvise(self.fd, position, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        self._close_direct()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


class OsDisk:
    """Plain system calls; paths are as given."""

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(path, os.open(path, flags, 0o640))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    def make_folder(self, path: str) -> None:
        missing = []
        path = os.path.abspath(path)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder, mode=0o750)
            # Or a power cut could take the whole data folder, with all that was synced inside it.
            self.sync_folder(os.path.dirname(folder))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def sync_folder(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: str) -> int:
        state = os.statvfs(path)
        return state.f_bavail * state.f_frsize

    def lock(self, path: str) -> object:
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = file.pread(64, 0).decode("ascii", "replace").strip()
            raise DataFolderLocked(
                f"{os.path.dirname(path)} is in use by process {holder or 'unknown'}; "
                "stop it first, or use another folder"
            ) from None
        file.truncate(0)
        file.pwritev([f"{os.getpid()}\n".encode()], 0)
        return file
