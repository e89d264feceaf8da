"""What is journalled of share groups. Partitions go by their ids, which are never given again."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mainstem.kernel.subs.leased_lane import Counts, Ranges


class ShareGroupMade(msgspec.Struct, array_like=True, tag=1, frozen=True):
    group: str


class ShareGroupGone(msgspec.Struct, array_like=True, tag=2, frozen=True):
    group: str


class ShareStarted(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """The group reads this partition from this offset on, whatever it had done with before."""

    group: str
    partition_id: int
    offset: int


class SharesSettled(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """(partition id, what is done with, what failed how often so far)."""

    group: str
    partitions: tuple[tuple[int, Ranges, Counts], ...]


class SharesForgotten(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """The group has not begun with these partitions."""

    group: str
    partition_ids: tuple[int, ...]


class ShareReached(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """For snapshots: all that is known of one partition."""

    group: str
    partition_id: int
    floor: int
    done: Ranges
    failed: Counts


class GroupConfigured(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """All of the group's own configs, not the difference. The group need not exist."""

    group: str
    configs: dict[str, str]


ShareDelta: TypeAlias = (
    ShareGroupMade
    | ShareGroupGone
    | ShareStarted
    | SharesSettled
    | SharesForgotten
    | ShareReached
    | GroupConfigured
)
