"""Share groups (KIP-932): members share partitions and acknowledge record by record."""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT16, INT32, STRING, UUID, Message, array, wire


class ShareGroupHeartbeatRequest(Message, flexible_since=0):
    """Epoch 0 joins, -1 leaves."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    rack_id: str | None = wire(STRING, nullable=0, default=None)
    subscribed_topic_names: list[str] | None = wire(array(STRING), nullable=0, default=None)


class TopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


class ShareGroupAssignment(Message):
    topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))


class ShareGroupHeartbeatResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    member_id: str | None = wire(STRING, nullable=0, default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: ShareGroupAssignment | None = wire(ShareGroupAssignment, nullable=0)


class ShareGroupDescribeRequest(Message, flexible_since=0):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


class NamedTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class MemberAssignment(Message):
    topic_partitions: list[NamedTopicPartitions] = wire(array(NamedTopicPartitions))


class ShareGroupMember(Message):
    member_id: str = wire(STRING)
    rack_id: str | None = wire(STRING, nullable=0, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    assignment: MemberAssignment = wire(MemberAssignment)


class DescribedShareGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[ShareGroupMember] = wire(array(ShareGroupMember))
    authorized_operations: int = wire(INT32, default=-0x80000000)


class ShareGroupDescribeResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedShareGroup] = wire(array(DescribedShareGroup))
