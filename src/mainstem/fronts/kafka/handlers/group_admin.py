"""Looking at groups of any type, and deleting them."""

from __future__ import annotations

from functools import partial

from mainstem.broker.groups import ClassicView
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import GroupNotFound, MainstemError
from mainstem.wire.kafka.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

# Before this version a group that is not there is one in state Dead.
NOT_FOUND_SINCE = 6
DEAD = "Dead"
# Kafka's numbers of the operations that make sense for a group.
OPERATIONS = {"read": 3, "delete": 6, "describe": 8, "describe_configs": 10, "alter_configs": 11}
NOT_ASKED = -0x80000000


def authorized_operations(request: Request, group_id: str, *, asked: bool) -> int:
    """A bit per operation that this client may do with the group."""
    if not asked:
        return NOT_ASKED
    allows = request.session.allows
    return sum(1 << number for name, number in OPERATIONS.items() if allows(name, "group", group_id))


async def describe(request: Request, message: DescribeGroupsRequest) -> DescribeGroupsResponse | Encoded:
    look = partial(_described, request, message.include_authorized_operations)
    # Once each: a group may be large, and its name is short.
    found = await Slices().each(look, dict.fromkeys(message.groups))
    return await encoded_if_large(DescribeGroupsResponse(groups=found), request.version, len(found))


def _described(request: Request, operations_asked: bool, group_id: str) -> DescribedGroup:
    try:
        request.session.require("describe", "group", group_id)
        view = request.broker.groups.describe(group_id)
        if not isinstance(view, ClassicView):
            raise GroupNotFound(f"Group {group_id} is not a classic group.")
    except GroupNotFound as error:
        if request.version < NOT_FOUND_SINCE:
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        return DescribedGroup(
            group_id=group_id, group_state=DEAD, error_code=code_of(error), error_message=str(error)
        )
    except MainstemError as error:
        return DescribedGroup(group_id=group_id, error_code=code_of(error), error_message=str(error))
    return DescribedGroup(
        group_id=group_id,
        group_state=view.state.value,
        protocol_type=view.protocol_type,
        protocol_data=view.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in view.members
        ],
        authorized_operations=authorized_operations(request, group_id, asked=operations_asked),
    )


async def list_all(request: Request, message: ListGroupsRequest) -> ListGroupsResponse | Encoded:
    session, groups = request.session, request.broker.groups
    sees_all = session.allows("describe", "cluster", "kafka-cluster")
    states = {state.lower() for state in message.states_filter}
    types = {name.lower() for name in message.types_filter}
    response, slices = ListGroupsResponse(), Slices()
    for group_id in groups.ids():
        one = groups.listed(group_id)
        if (
            one is not None
            and (not states or one.state.lower() in states)
            and (not types or one.kind.value in types)
            and (sees_all or session.allows("describe", "group", group_id))
        ):
            response.groups.append(
                ListedGroup(
                    group_id=group_id,
                    protocol_type=one.protocol_type,
                    group_state=one.state,
                    group_type=one.kind.value,
                )
            )
        if slices.used_up():
            await slices.rest()
    return await encoded_if_large(response, request.version, len(response.groups))


async def delete(request: Request, message: DeleteGroupsRequest) -> DeleteGroupsResponse | Encoded:
    results = await Slices().each_awaited(partial(_delete, request), message.groups_names)
    return await encoded_if_large(DeleteGroupsResponse(results=results), request.version, len(results))


async def _delete(request: Request, group_id: str) -> DeletableGroupResult:
    try:
        request.session.require("delete", "group", group_id)
        await request.broker.groups.delete(group_id)
    except MainstemError as error:
        return DeletableGroupResult(group_id=group_id, error_code=code_of(error))
    return DeletableGroupResult(group_id=group_id)
