"""What the care for files has to know of the partitions whose records they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from mainstem.kernel.log.jobs import BodyId


@dataclass(frozen=True, slots=True)
class CompactPolicy:
    """What a topic's settings say about compaction by key."""

    delete_retention_ms: int = 86_400_000
    min_lag_ms: int = 0


class Facts(Protocol):
    """What the broker knows about partitions. Called on the owner's thread, often: no look at a disk."""

    def floor(self, partition: int) -> int | None:
        """The log start: what ends below it may go. None for a partition that is deleted."""

    def compaction(self, partition: int) -> CompactPolicy | None:
        """None for a partition that is not compacted by key."""

    def stable_offset(self, partition: int) -> int:
        """The last stable offset: no record at or above it is compacted."""

    def now_ms(self) -> int:
        """The time of day, which records are as old by as they are; it may be set back."""

    def bodies(self) -> Iterable[BodyId]:
        """Bodies that state names by address without a link: messages that wait for their time."""
