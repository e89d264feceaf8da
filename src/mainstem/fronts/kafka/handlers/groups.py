"""Classic consumer groups: join, sync, heartbeat, leave."""

from __future__ import annotations

from mainstem.broker.groups import JoinRequest, Leaver, SyncRequest
from mainstem.fronts.kafka.codes import NONE, code_of
from mainstem.fronts.kafka.session import Request, Session
from mainstem.model.errors import (
    GroupFull,
    InconsistentProtocol,
    InvalidRequest,
    MainstemError,
    MemberIdRequired,
)
from mainstem.wire.kafka.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

# What a member says of itself is kept in memory; for all members of a group together there is
# `ClassicLimits.max_group_bytes`.
MAX_PROTOCOLS = 100
MAX_MEMBER_BYTES = 4 << 20
MAX_NAME_LENGTH = 249

REBALANCE_TIMEOUT_SINCE = 1
ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SYNC_NAMES_PROTOCOL_SINCE = 5
SKIP_ASSIGNMENT_SINCE = 9
LEAVE_MANY_SINCE = 3


async def join(request: Request, message: JoinGroupRequest) -> JoinGroupResponse:
    member_id = message.member_id
    try:
        request.session.require("read", "group", message.group_id)
        result = await request.broker.groups.join(message.group_id, _join_request(request, message))
    except MainstemError as error:
        tell_if_full(request.session, message.group_id, error)
        if isinstance(error, MemberIdRequired):
            member_id = error.member_id
        return JoinGroupResponse(
            error_code=code_of(error),
            protocol_name=None if request.version >= NULL_PROTOCOL_SINCE else "",
            member_id=member_id,
        )
    return JoinGroupResponse(
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in result.members
        ],
    )


def _join_request(request: Request, message: JoinGroupRequest) -> JoinRequest:
    if len(message.protocols) > MAX_PROTOCOLS:
        raise InconsistentProtocol(f"{len(message.protocols)} protocols; {MAX_PROTOCOLS} are allowed")
    size = sum(len(one.name) + len(one.metadata) for one in message.protocols)
    if size > MAX_MEMBER_BYTES:
        raise InvalidRequest(f"{size} bytes of metadata; {MAX_MEMBER_BYTES} are allowed for a member")
    check_name(message.group_instance_id)
    prefix = message.group_instance_id or request.client_id
    has_timeout = request.version >= REBALANCE_TIMEOUT_SINCE
    return JoinRequest(
        member_id=message.member_id,
        new_member_id="" if message.member_id else request.broker.groups.new_member_id(prefix),
        protocol_type=message.protocol_type,
        protocols=tuple((one.name, bytes(one.metadata)) for one in message.protocols),
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=message.rebalance_timeout_ms if has_timeout else message.session_timeout_ms,
        instance_id=message.group_instance_id,
        client_id=request.client_id,
        client_host=f"/{request.session.host}",
        id_required=request.version >= ID_REQUIRED_SINCE,
        skips_assignment=request.version >= SKIP_ASSIGNMENT_SINCE,
    )


def tell_if_full(session: Session, group_id: str, error: MainstemError) -> None:
    """Clients show a number at best: which limit it was the log has to say."""
    if isinstance(error, GroupFull):
        session.listener.complaints.tell(session, "a group takes nobody in", group=group_id, why=str(error))


def check_name(instance_id: str | None) -> None:
    if instance_id is not None and not 0 < len(instance_id) <= MAX_NAME_LENGTH:
        raise InvalidRequest(f"an instance id has 1 to {MAX_NAME_LENGTH} characters")


async def sync(request: Request, message: SyncGroupRequest) -> SyncGroupResponse:
    try:
        request.session.require("read", "group", message.group_id)
        if request.version >= SYNC_NAMES_PROTOCOL_SINCE and None in (
            message.protocol_type,
            message.protocol_name,
        ):
            raise InconsistentProtocol("the protocol's type and name are to be given")
        result = await request.broker.groups.sync(
            message.group_id,
            SyncRequest(
                message.member_id,
                message.generation_id,
                message.group_instance_id,
                message.protocol_type,
                message.protocol_name,
                {one.member_id: bytes(one.assignment) for one in message.assignments},
            ),
        )
    except MainstemError as error:
        return SyncGroupResponse(error_code=code_of(error))
    return SyncGroupResponse(
        protocol_type=result.protocol_type, protocol_name=result.protocol_name, assignment=result.assignment
    )


async def heartbeat(request: Request, message: HeartbeatRequest) -> HeartbeatResponse:
    try:
        request.session.require("read", "group", message.group_id)
        request.broker.groups.heartbeat(
            message.group_id, message.member_id, message.group_instance_id, message.generation_id
        )
    except MainstemError as error:
        return HeartbeatResponse(error_code=code_of(error))
    return HeartbeatResponse()


async def leave(request: Request, message: LeaveGroupRequest) -> LeaveGroupResponse:
    many = request.version >= LEAVE_MANY_SINCE
    leavers = (
        [Leaver(one.member_id, one.group_instance_id) for one in message.members]
        if many
        else [Leaver(message.member_id)]
    )
    try:
        request.session.require("read", "group", message.group_id)
        results = request.broker.groups.leave(message.group_id, leavers)
    except MainstemError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    codes = [NONE if result.error is None else code_of(result.error) for result in results]
    if not many:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=result.member_id, group_instance_id=result.instance_id, error_code=code)
            for result, code in zip(results, codes, strict=True)
        ]
    )
