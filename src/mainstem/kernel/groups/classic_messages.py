"""What goes into and comes out of a classic group: requests, results, answers, snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mainstem.model.errors import MainstemError


class ClassicState(Enum):
    """The value is the name that admin tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ClassicLimits:
    initial_delay_ms: int = 3_000  # how long the first rebalance of an empty group waits for more members
    min_session_ms: int = 6_000
    max_session_ms: int = 1_800_000
    max_members: int = 2**31 - 1
    # What members say of themselves and what their leader gives them, in memory and in answers to leaders.
    # Kafka keeps a group in one record, which has 1 MB by default; the largest honest ones (Streams) come
    # near that.
    max_group_bytes: int = 8 << 20
    max_total_bytes: int = 256 << 20  # of all classic groups together
    # A new member cannot heartbeat before its join is answered, and a client that gave up on a long
    # rebalance comes back as another new member: the one left behind goes after this time.
    new_member_join_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class JoinRequest:
    member_id: str  # "" when the client has none yet
    new_member_id: str  # the id this member gets if it has none: made by the caller, never used twice
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, opaque metadata), most wanted first
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    id_required: bool = True  # the client can be told its id and asked to join again with it
    skips_assignment: bool = True  # the client understands JoinResult.skip_assignment


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    generation: int
    protocol_type: str
    protocol_name: str
    leader_id: str
    member_id: str
    members: tuple[JoinedMember, ...] = ()  # for the leader, who assigns; () for everyone else
    skip_assignment: bool = False  # leader of an unchanged group: take the members, assign nothing


@dataclass(frozen=True, slots=True)
class SyncRequest:
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)  # member id -> opaque; from the leader


@dataclass(frozen=True, slots=True)
class SyncResult:
    protocol_type: str
    protocol_name: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The one effect of a group: reply to the request that waits under `token`. Exactly once per token."""

    token: object
    result: JoinResult | SyncResult | MainstemError


@dataclass(frozen=True, slots=True)
class Leaver:
    member_id: str  # "" with an instance id: an operator removes a static member
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveResult:
    member_id: str
    instance_id: str | None
    error: MainstemError | None = None


@dataclass(frozen=True, slots=True)
class ClassicMemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes  # b"" unless the group is stable
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicView:
    group_id: str
    state: ClassicState
    protocol_type: str
    protocol_name: str  # "" unless the group is stable
    generation: int
    leader_id: str | None
    members: tuple[ClassicMemberView, ...]
