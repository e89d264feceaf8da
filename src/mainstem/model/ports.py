"""Ports: every source of chance, time and I/O that the house uses, as small protocols.

Nobody else calls time.time, os.fsync, random or uuid4: a test can therefore turn the clock, replay a disk
or drop a write, and a crash can be enumerated instead of waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview
# Of `File.write_direct`: what disks write at once, or a multiple of it.
BLOCK_BYTES = 4096


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970, as record timestamps are."""

    def monotonic_ms(self) -> int:
        """For deadlines: never goes backwards, has no meaning across processes."""


class Chance(Protocol):
    def uuid(self) -> bytes:
        """16 random bytes, version 4."""

    def token(self) -> str:
        """A short random text for member ids and the like."""


# A long read asks the disk for so much at a time. What a disk was asked for it does before what it is asked
# next: with more than this in its queue, a write that comes then waits many times as long as it takes.
READ_STEP = 512 << 10


class File(Protocol):
    """One open file. Reads and writes name their position; there is no cursor."""

    path: str

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """May return less than `size`, at the end of the file only."""

    def read_only_what_is_asked(self) -> None:
        """No reading ahead: what follows is read by nobody, or in a while, and a write may be next."""

    def will_need(self, size: int, position: int) -> None:
        """It is read soon, piece by piece: the disk may be asked for all of it, or its beginning, at once."""

    def pread_cached(self, size: int, position: int) -> bytes | None:
        """Like pread, but None when the bytes are not all in memory: never waits for the disk."""

    def is_cached(self, size: int, position: int) -> bool:
        """Whether these bytes are in memory, as far as can be told without reading them all."""

    def send(self, socket_fd: int, size: int, position: int) -> int:
        """Pass bytes on to a socket that does not wait; how many it took.

        0 if it takes none now, is broken, or cannot be fed from this file: who writes to it will see.
        """

    def pwritev(self, chunks: Sequence[Buffer], position: int) -> None:
        """Writes all chunks, in order, from `position` on."""

    def write_through(self, chunks: Sequence[Buffer], position: int) -> None:
        """Like pwritev; these bytes are on disk when it returns. Others are not synced with them."""

    def write_direct(self, blocks: Buffer, position: int) -> bool:
        """Like write_through, and past the page cache; in memory, size and position whole blocks.

        False, and nothing is written, if that cannot be done with this file.
        """

    def fdatasync(self) -> None: ...

    def fsync(self) -> None: ...

    def truncate(self, size: int) -> None: ...

    def allocate(self, size: int) -> None:
        """Reserve space so that writes below `size` cannot run out of it; new bytes read as zero."""

    def uncache(self, position: int = 0, size: int = 0) -> None:
        """What is on disk there need not be in memory too (size 0: to the end). Advice, for speed only."""

    def close(self) -> None: ...


class Disk(Protocol):
    """The folder tree below a broker's data folder."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list(self, folder: str) -> list[str]: ...

    def make_folder(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def sync_folder(self, path: str) -> None: ...

    def free_bytes(self, path: str) -> int: ...

    def lock(self, path: str) -> object:
        """Hold the returned object as long as the lock is wanted; raises DataFolderLocked."""
