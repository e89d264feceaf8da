"""A broker that never syncs, which no setting can ask for: the torture's own test runs it.

kill -9 cannot tell it from the real one. A power cut must.
"""

from __future__ import annotations

from mainstem.broker import broker
from mainstem.kernel.log.disk import OsDisk, OsFile


class UnsyncedFile(OsFile):
    __slots__ = ()

    def fdatasync(self) -> None:
        """Only said to be done."""

    def fsync(self) -> None:
        """Only said to be done."""


class UnsyncedDisk(OsDisk):
    def open(self, path: str, *, create: bool = False) -> OsFile:
        file = super().open(path, create=create)
        unsynced = UnsyncedFile(path, file.fd)
        file.fd = -1  # it belongs to the other now
        return unsynced

    def sync_folder(self, path: str) -> None:
        """Only said to be done."""


def stop_syncing() -> None:
    """Every broker that this process opens from now on."""
    broker.OsDisk = UnsyncedDisk  # type: ignore[attr-defined]
