"""What is done to a broker under torture, in its own process, and what no setting can ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from mainstem.broker import broker, chores
from mainstem.broker.queues import acks
from mainstem.kernel.log import cached, direct, stage
from mainstem.kernel.log.disk import OsDisk, OsFile
from mainstem.model.ports import Buffer

HURRIED_TICK_S = 0.1
# Messages: so that a strike often follows a note of what is being delivered before a snapshot has it, too.
MARKED_AHEAD = 20
# Of the journal's questions whether anybody reads: it asks twice for each round, and once for each merge.
UNREAD_IN_A_ROW = 16


def hurry() -> None:
    """Snapshots, seals and merges follow each other without a pause, so that a strike often meets one.

    And rounds of any size go past the page cache, several in a row, with others in between.
    """
    chores.TICK_S = HURRIED_TICK_S
    acks.MARK_AHEAD = MARKED_AHEAD
    direct.LEAST_BYTES = 1
    stage.LEAST_BATCH_BYTES = 1
    cached.CachedFiles.is_unread = _is_in_turn  # type: ignore[method-assign, assignment]


def _is_in_turn(_: cached.CachedFiles, questions: Iterator[int] = count()) -> bool:  # noqa: B008
    return next(questions) // UNREAD_IN_A_ROW % 2 == 0


class UnsyncedFile(OsFile):
    __slots__ = ()

    def write_through(self, chunks: Sequence[Buffer], position: int) -> None:
        self.pwritev(chunks, position)

    def write_direct(self, _blocks: Buffer, _position: int) -> bool:
        """Not here: it would be on disk."""
        return False

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
    """A broker that never syncs. kill -9 cannot tell it from the real one; a power cut must."""
    broker.OsDisk = UnsyncedDisk  # type: ignore[attr-defined]
