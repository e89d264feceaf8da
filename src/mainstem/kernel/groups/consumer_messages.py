"""What goes into and comes out of a consumer group: heartbeats, their results, snapshots, topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from mainstem.kernel.groups.assignors import ASSIGNORS, Partition
from mainstem.kernel.groups.room import MAX_GROUP_BYTES, MAX_TOTAL_BYTES

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2  # "I will be back under this instance id"


class ConsumerState(Enum):
    """The value is the name that admin tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_members: int = 2**31 - 1
    max_group_bytes: int = MAX_GROUP_BYTES  # what members say and hold, and what follows from it
    max_total_bytes: int = MAX_TOTAL_BYTES  # of all consumer and share groups together
    # A pattern is tried on every topic, so after topics came or went it is not tried again at once.
    pattern_refresh_ms: int = 5_000
    assignors: tuple[str, ...] = tuple(ASSIGNORS)  # that members may choose; the first is the default


@dataclass(frozen=True, slots=True)
class TopicInfo:
    topic_id: bytes
    partitions: int


class Topics(Protocol):
    """The topics a member may see, as the caller holds them; only asked during a call."""

    @property
    def version(self) -> int:
        """Changes whenever a topic comes, goes or gets partitions."""
        ...

    def get(self, name: str) -> TopicInfo | None: ...

    def names(self) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """None in an optional field: unchanged since the last heartbeat."""

    member_id: str
    member_epoch: int
    new_member_id: str = ""  # the id a member gets that has none; made by the caller
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None  # "": no pattern any more
    assignor: str | None = None
    owned: frozenset[Partition] | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """The member has said everything, so it wants to hear everything."""
        subscribed = self.topic_names is not None or self.topic_regex is not None
        said_all = self.rebalance_timeout_ms is not None and subscribed and self.owned is not None
        return self.member_epoch == JOIN_EPOCH or said_all


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: frozenset[Partition] | None = None  # None: unchanged


@dataclass(frozen=True, slots=True)
class ConsumerMemberView:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: frozenset[str]
    topic_regex: str
    assigned: frozenset[Partition]
    target: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class ConsumerView:
    group_id: str
    state: ConsumerState
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberView, ...]
