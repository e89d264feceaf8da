"""What commands on data folders share: nobody else may be using one, and people see how far it is."""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

from mainstem.cli.output import progress
from mainstem.kernel.log.disk import OsDisk
from mainstem.model.errors import DataFolderLocked

LOCK = "LOCK"


@contextlib.contextmanager
def hold_folder(folder: Path, instead: str = "stop it first") -> Iterator[None]:
    """No broker serves it meanwhile; `instead` says what to do where one does. A backup gets no lock file."""
    try:
        held = _lock(folder / LOCK) if (folder / LOCK).exists() else None
    except DataFolderLocked as error:
        raise DataFolderLocked(f"{str(error).partition(';')[0]}; {instead}") from None
    try:
        yield
    finally:
        del held  # closing the file lets go


def _lock(file: Path) -> object:
    try:
        return OsDisk().lock(str(file))
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    # No broker can write here. The same disk may be mounted elsewhere too, so it is asked all the same.
    held = file.open("rb")
    try:
        fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        holder = held.read(64).decode("ascii", "replace").strip()
        held.close()
        raise DataFolderLocked(f"{file.parent} is in use by process {holder or 'unknown'}") from None
    return held


@contextlib.contextmanager
def progress_bytes(description: str) -> Iterator[Callable[[int, int], None]]:
    """Gives `report(done, total)`, in bytes."""
    with progress(description, 1.0) as advance:
        shown = 0.0

        def report(done: int, total: int) -> None:
            nonlocal shown
            part = done / total if total else 1.0
            if part - shown >= 0.001 or part >= 1.0:
                advance(part - shown)
                shown = part

        yield report
