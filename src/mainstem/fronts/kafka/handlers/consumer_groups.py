"""Consumer groups whose assignment the broker makes (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from mainstem.broker.groups import (
    ConsumerHeartbeat,
    ConsumerView,
    HeartbeatResult,
    VisibleTopics,
    by_topic,
)
from mainstem.fronts.kafka.codes import code_of
from mainstem.fronts.kafka.encoding import Encoded, encoded_if_large
from mainstem.fronts.kafka.handlers.group_admin import authorized_operations
from mainstem.fronts.kafka.handlers.groups import MAX_NAME_LENGTH, check_name, tell_if_full
from mainstem.fronts.kafka.session import Request
from mainstem.fronts.kafka.slices import Slices
from mainstem.model.errors import GroupNotFound, InvalidRequest, MainstemError, NotAuthorized
from mainstem.wire.kafka.consumer_groups import (
    ConsumerGroupAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMember,
    DescribedConsumerGroup,
    MemberAssignment,
    NamedTopicPartitions,
    TopicPartitions,
)

# From here on members choose their own id, so that a lost answer does not leave a stranger behind.
OWN_ID_SINCE = 1
JOIN_EPOCH = 0
CONSUMER_MEMBER = 1
MAX_TOPICS = 100_000
MAX_PATTERN_LENGTH = 4096


async def heartbeat(
    request: Request, message: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    session, broker = request.session, request.broker
    try:
        session.require("read", "group", message.group_id)
        for name in message.subscribed_topic_names or ():
            session.require("describe", "topic", name)
        topics = VisibleTopics(broker.topics, lambda name: session.allows("describe", "topic", name))
        result = broker.groups.consumer_heartbeat(message.group_id, _heartbeat(request, message), topics)
    except MainstemError as error:
        tell_if_full(session, message.group_id, error)
        return ConsumerGroupHeartbeatResponse(
            error_code=code_of(error), error_message=str(error), assignment=None
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=_assignment(result),
    )


def _heartbeat(request: Request, message: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    if request.version >= OWN_ID_SINCE and not message.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    for name in (message.member_id, message.instance_id, message.rack_id):
        if name is not None and len(name) > MAX_NAME_LENGTH:
            raise InvalidRequest(f"an id of {len(name)} characters; {MAX_NAME_LENGTH} are allowed")
    check_name(message.instance_id)
    names, owned, pattern = (
        message.subscribed_topic_names,
        message.topic_partitions,
        message.subscribed_topic_regex,
    )
    if names is not None and len(names) > MAX_TOPICS:
        raise InvalidRequest(f"{len(names)} topics; {MAX_TOPICS} are allowed")
    if pattern is not None and len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidRequest(f"a pattern of {len(pattern)} characters; {MAX_PATTERN_LENGTH} are allowed")
    return ConsumerHeartbeat(
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        new_member_id="" if message.member_id else request.broker.groups.new_member_id(),
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=message.rebalance_timeout_ms if message.rebalance_timeout_ms >= 0 else None,
        topic_names=None if names is None else frozenset(names),
        topic_regex=pattern,
        assignor=message.server_assignor,
        owned=None
        if owned is None
        else frozenset((topic.topic_id, index) for topic in owned for index in topic.partitions),
        client_id=request.client_id,
        client_host=f"/{request.session.host}",
    )


def _assignment(result: HeartbeatResult) -> ConsumerGroupAssignment | None:
    if result.assignment is None:
        return None
    return ConsumerGroupAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(result.assignment)
        ]
    )


async def describe(
    request: Request, message: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Encoded:
    look = partial(_described, request, message.include_authorized_operations)
    # Once each: a group may be large, and its name is short.
    found = await Slices().each(look, dict.fromkeys(message.group_ids))
    return await encoded_if_large(ConsumerGroupDescribeResponse(groups=found), request.version, len(found))


def _described(request: Request, operations_asked: bool, group_id: str) -> DescribedConsumerGroup:
    try:
        request.session.require("describe", "group", group_id)
        view = request.broker.groups.describe(group_id)
        if not isinstance(view, ConsumerView):
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")
        _require_topics(request, view)
    except MainstemError as error:
        return DescribedConsumerGroup(
            group_id=group_id, error_code=code_of(error), error_message=str(error), group_state="Unknown"
        )
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=view.state.value,
        group_epoch=view.group_epoch,
        assignment_epoch=view.assignment_epoch,
        assignor_name=view.assignor,
        members=[
            ConsumerGroupMember(
                member_id=one.member_id,
                instance_id=one.instance_id,
                rack_id=one.rack_id,
                member_epoch=one.member_epoch,
                client_id=one.client_id,
                client_host=one.client_host,
                subscribed_topic_names=sorted(one.topic_names),
                subscribed_topic_regex=one.topic_regex or None,
                assignment=_named(request, one.assigned),
                target_assignment=_named(request, one.target),
                member_type=CONSUMER_MEMBER,
            )
            for one in view.members
        ],
        authorized_operations=authorized_operations(request, group_id, asked=operations_asked),
    )


def _require_topics(request: Request, view: ConsumerView) -> None:
    """Who sees the group sees its topics, so it must be allowed to know them all."""
    topics = request.broker.topics.by_id
    for member in view.members:
        for topic_id in {topic_id for topic_id, _ in member.assigned | member.target}:
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
