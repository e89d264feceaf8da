"""Classic consumer groups: the members agree on an assignment, the broker only keeps them in step.

FindCoordinator has one key up to version 3 and a list of keys from version 4 on. Key types: 0 group,
1 transaction, 2 share.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, BYTES, INT8, INT16, INT32, STRING, Message, array, wire


class FindCoordinatorRequest(Message, flexible_since=3):
    key: str = wire(STRING, until=3)
    key_type: int = wire(INT8, since=1)
    coordinator_keys: list[str] = wire(array(STRING), since=4)


class Coordinator(Message):
    key: str = wire(STRING)
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)


class FindCoordinatorResponse(Message, flexible_since=3):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16, until=3)
    error_message: str | None = wire(STRING, since=1, until=3, nullable=1, default=None)
    node_id: int = wire(INT32, until=3)
    host: str = wire(STRING, until=3)
    port: int = wire(INT32, until=3)
    coordinators: list[Coordinator] = wire(array(Coordinator), since=4)


class JoinGroupRequestProtocol(Message):
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


class JoinGroupRequest(Message, flexible_since=6):
    """Join with every assignor this member knows, best first."""

    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, since=1, default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable=5, default=None)
    protocol_type: str = wire(STRING)
    protocols: list[JoinGroupRequestProtocol] = wire(array(JoinGroupRequestProtocol))
    reason: str | None = wire(STRING, since=8, nullable=8, default=None)


class JoinGroupResponseMember(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable=5, default=None)
    metadata: bytes = wire(BYTES)


class JoinGroupResponse(Message, flexible_since=6):
    """Only the leader is told the members; it then sends their assignments with SyncGroup."""

    throttle_time_ms: int = wire(INT32, since=2)
    error_code: int = wire(INT16)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(STRING, since=7, nullable=7, default=None)
    protocol_name: str | None = wire(STRING, nullable=7)
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, since=9)  # the leader need not compute one
    member_id: str = wire(STRING)
    members: list[JoinGroupResponseMember] = wire(array(JoinGroupResponseMember))


class SyncGroupRequestAssignment(Message):
    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


class SyncGroupRequest(Message, flexible_since=4):
    """Assignments come from the leader; followers send none and wait for theirs."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable=3, default=None)
    protocol_type: str | None = wire(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = wire(STRING, since=5, nullable=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = wire(array(SyncGroupRequestAssignment))


class SyncGroupResponse(Message, flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    protocol_type: str | None = wire(STRING, since=5, nullable=5, default=None)
    protocol_name: str | None = wire(STRING, since=5, nullable=5, default=None)
    assignment: bytes = wire(BYTES)


class HeartbeatRequest(Message, flexible_since=4):
    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable=3, default=None)


class HeartbeatResponse(Message, flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)


class MemberIdentity(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable=0, default=None)
    reason: str | None = wire(STRING, since=5, nullable=5, default=None)


class LeaveGroupRequest(Message, flexible_since=4):
    """One member up to version 2, a list of them from version 3 on."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING, until=2)
    members: list[MemberIdentity] = wire(array(MemberIdentity), since=3)


class MemberResponse(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable=0)
    error_code: int = wire(INT16)


class LeaveGroupResponse(Message, flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    members: list[MemberResponse] = wire(array(MemberResponse), since=3)
