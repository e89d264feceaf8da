"""What commands on data folders share: nobody else may be using one, and people see how far it is."""

from __future__ import annotations

import contextlib
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
        held = OsDisk().lock(str(folder / LOCK)) if (folder / LOCK).exists() else None
    except DataFolderLocked as error:
        raise DataFolderLocked(f"{str(error).partition(';')[0]}; {instead}") from None
    try:
        yield
    finally:
        del held  # closing the file lets go


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
