"""Members of share groups (KIP-932), and a look at them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from mainstem.broker.groups import ShareHeartbeat, ShareView, VisibleTopics, by_topic
from mainstem.fronts.kafka.codes import code_of, text_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.handlers.group_admin import authorized_operations
from mainstem.fronts.kafka.handlers.groups import MAX_NAME_LENGTH, tell_if_full
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import GroupNotFound, InvalidRequest, MainstemError, NotAuthorized
from mainstem.wire.kafka.share_groups import (
    DescribedShareGroup,
    MemberAssignment,
    NamedTopicPartitions,
    ShareGroupAssignment,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupMember,
    TopicPartitions,
)

MAX_TOPICS = 100_000
LEAVE_EPOCH = -1


async def heartbeat(request: Request, message: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    session, broker = request.session, request.broker
    try:
        session.require("read", "group", message.group_id)
        for name in message.subscribed_topic_names or ():
            session.require("describe", "topic", name)
        topics = VisibleTopics(broker.topics, lambda name: session.allows("describe", "topic", name))
        result = broker.groups.share_heartbeat(message.group_id, _heartbeat(request, message), topics)
        if message.member_epoch == LEAVE_EPOCH:
            broker.shares.left(message.group_id, message.member_id)
    except MainstemError as error:
        tell_if_full(session, message.group_id, error)
        return ShareGroupHeartbeatResponse(
            error_code=code_of(error), error_message=text_of(error), assignment=None
        )
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=None if result.assignment is None else _assignment(result.assignment),
    )


def _heartbeat(request: Request, message: ShareGroupHeartbeatRequest) -> ShareHeartbeat:
    for name in (message.member_id, message.rack_id):
        if name is not None and len(name) > MAX_NAME_LENGTH:
            raise InvalidRequest(f"an id of {len(name)} characters; {MAX_NAME_LENGTH} are allowed")
    names = message.subscribed_topic_names
    if names is not None and len(names) > MAX_TOPICS:
        raise InvalidRequest(f"{len(names)} topics; {MAX_TOPICS} are allowed")
    return ShareHeartbeat(
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        rack_id=message.rack_id,
        topic_names=None if names is None else frozenset(names),
        client_id=request.client_id,
        client_host=f"/{request.session.host}",
    )


def _assignment(partitions: Iterable[tuple[bytes, int]]) -> ShareGroupAssignment:
    return ShareGroupAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in by_topic(partitions)
        ]
    )


async def describe(
    request: Request, message: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Encoded:
    look = partial(_described, request, message.include_authorized_operations)
    # Once each: a group may be large, and its name is short.
    found = await Slices().each(look, dict.fromkeys(message.group_ids))
    return await encoded_if_large(ShareGroupDescribeResponse(groups=found), request.version, len(found))


def _described(request: Request, operations_asked: bool, group_id: str) -> DescribedShareGroup:
    try:
        request.session.require("describe", "group", group_id)
        view = request.broker.groups.describe(group_id)
        if not isinstance(view, ShareView):
            raise GroupNotFound(f"Group {group_id} is not a share group.")
        _require_topics(request, view)
    except MainstemError as error:
        return DescribedShareGroup(
            group_id=group_id, error_code=code_of(error), error_message=text_of(error), group_state="Unknown"
        )
    return DescribedShareGroup(
        group_id=group_id,
        group_state=view.state.value,
        group_epoch=view.group_epoch,
        assignment_epoch=view.assignment_epoch,
        assignor_name=view.assignor,
        members=[
            ShareGroupMember(
                member_id=one.member_id,
                rack_id=one.rack_id,
                member_epoch=one.member_epoch,
                client_id=one.client_id,
                client_host=one.client_host,
                subscribed_topic_names=sorted(one.topic_names),
                assignment=_named(request, one.assigned),
            )
            for one in view.members
        ],
        authorized_operations=authorized_operations(request, group_id, asked=operations_asked),
    )


def _require_topics(request: Request, view: ShareView) -> None:
    """Who sees the group sees its topics, so it must be allowed to know them all."""
    topics = request.broker.topics.by_id
    for topic_id in {topic_id for member in view.members for topic_id, _ in member.assigned}:
        topic = topics.get(topic_id)
        if topic is not None and not request.session.allows("describe", "topic", topic.name):
            raise NotAuthorized(request.session.principal, "describe", "topic", topic.name)


def _named(request: Request, partitions: Iterable[tuple[bytes, int]]) -> MemberAssignment:
    topics = request.broker.topics.by_id
    return MemberAssignment(
        topic_partitions=[
            NamedTopicPartitions(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=indexes)
            for topic_id, indexes in by_topic(partitions)
            if topic_id in topics
        ]
    )
