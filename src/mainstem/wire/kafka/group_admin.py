"""Looking at groups of any type, and deleting them."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, BYTES, INT16, INT32, STRING, Message, array, wire


class DescribeGroupsRequest(Message, flexible_since=5):
    groups: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, since=3)


class DescribedGroupMember(Message):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=4, nullable=4, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


class DescribedGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=6, nullable=6, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: list[DescribedGroupMember] = wire(array(DescribedGroupMember))
    authorized_operations: int = wire(INT32, since=3, default=-0x80000000)


class DescribeGroupsResponse(Message, flexible_since=5):
    throttle_time_ms: int = wire(INT32, since=1)
    groups: list[DescribedGroup] = wire(array(DescribedGroup))


class ListGroupsRequest(Message, flexible_since=3):
    """Empty filters let every state and type through."""

    states_filter: list[str] = wire(array(STRING), since=4)
    types_filter: list[str] = wire(array(STRING), since=5)


class ListedGroup(Message):
    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, since=4)
    group_type: str = wire(STRING, since=5)


class ListGroupsResponse(Message, flexible_since=3):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    groups: list[ListedGroup] = wire(array(ListedGroup))


class DeleteGroupsRequest(Message, flexible_since=2):
    groups_names: list[str] = wire(array(STRING))


class DeletableGroupResult(Message):
    group_id: str = wire(STRING)
    error_code: int = wire(INT16)


class DeleteGroupsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[DeletableGroupResult] = wire(array(DeletableGroupResult))
