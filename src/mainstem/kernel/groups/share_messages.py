"""What goes into and comes out of a share group: heartbeats, limits, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from mainstem.kernel.groups.assignors import Partition
from mainstem.kernel.groups.room import MAX_GROUP_BYTES


class ShareState(Enum):
    """The value is the name that admin tools show."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ShareLimits:
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_members: int = 2**31 - 1
    max_group_bytes: int = MAX_GROUP_BYTES  # see ConsumerLimits


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topic_names: frozenset[str] | None = None  # None: as before
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class ShareMemberView:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: frozenset[str]
    assigned: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class ShareView:
    group_id: str
    state: ShareState
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ShareMemberView, ...]
