"""The mill: a child process that seals and merges files, so that the broker's own process never does.

Run as `python -m mainstem.kernel.log.mill [bytes per second]`. Each message on stdin and stdout is a 4-byte
big-endian length and msgpack: a job in, an outcome out, one at a time. The first message out is empty: the
mill is set up, and may be stopped from now on without outliving its parent. When stdin closes, or the parent
dies in any other way, the mill ends at once, whatever it is doing: half-made files are named by no manifest.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from struct import Struct

import msgspec

from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.jobs import Failed, Job, MergeJob, Outcome
from mainstem.kernel.log.layout import file_id_of
from mainstem.kernel.log.merge import merge
from mainstem.kernel.log.seal import seal_file
from mainstem.model.errors import CorruptFile, FormatTooNew, MainstemError
from mainstem.model.ports import Disk

LENGTH = Struct(">I")
NICENESS = 10
_PR_SET_PDEATHSIG = 1

decode_job = msgspec.msgpack.Decoder(Job).decode
encode_job = msgspec.msgpack.Encoder().encode
decode_outcome = msgspec.msgpack.Decoder(Outcome).decode


def run_job(disk: Disk, job: Job, pace: Callable[[int], None]) -> Outcome:
    """Do it, here and now; an error becomes an outcome."""
    try:
        if isinstance(job, MergeJob):
            return merge(disk, job, pace)
        return seal_file(disk, job, pace)
    except CorruptFile as error:
        return Failed(str(error), corrupt=True, path=error.path)
    except FormatTooNew as error:
        return Failed(str(error), corrupt=True)
    except OSError as error:
        # A spot that the disk cannot read is damage. To try it again and again would keep all merges waiting
        # that this one comes before.
        path = error.filename if error.errno == errno.EIO and isinstance(error.filename, str) else ""
        unreadable = file_id_of(path) in _read_by(job)
        return Failed(f"{type(error).__name__}: {error}", corrupt=unreadable, path=path if unreadable else "")
    except MainstemError as error:
        return Failed(f"{type(error).__name__}: {error}")


def _read_by(job: Job) -> set[int]:
    """Ids of files; not those that it writes."""
    read = (*job.inputs, *job.retired, *job.outside) if isinstance(job, MergeJob) else (job.input,)
    return {entry.file_id for entry in read}


class Pace:
    """Holds work to a number of bytes per second; 0 is no limit."""

    def __init__(self, bytes_per_second: int) -> None:
        self._rate = bytes_per_second
        self._due = time.monotonic()

    def __call__(self, count: int) -> None:
        if not self._rate:
            return
        now = time.monotonic()
        # Time in which nothing was done is not saved up for later.
        self._due = max(self._due, now) + count / self._rate
        if self._due - now > 0.05:
            time.sleep(self._due - now)


def _read_exactly(fd: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_message(fd: int) -> bytes | None:
    """None when the other side is gone."""
    head = _read_exactly(fd, LENGTH.size)
    return None if head is None else _read_exactly(fd, LENGTH.unpack(head)[0])


def write_message(fd: int, payload: bytes) -> None:
    rest = memoryview(LENGTH.pack(len(payload)) + payload)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _listen(jobs: SimpleQueue[bytes]) -> None:
    """Reads ahead of the work, so that the end of the parent is noticed in the middle of a job."""
    while (message := read_message(0)) is not None:
        jobs.put(message)
    os._exit(0)


def _die_with_parent() -> None:
    """Where the system offers it, the kernel ends us with the parent, even while Python is busy."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    _die_with_parent()
    write_message(1, b"")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker: it ends us when it has drained
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    pace = Pace(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    jobs: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    disk = OsDisk()
    while True:
        outcome = run_job(disk, decode_job(jobs.get()), pace)
        write_message(1, encode_job(outcome))


if __name__ == "__main__":
    main()
