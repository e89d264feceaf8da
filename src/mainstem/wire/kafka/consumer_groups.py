"""Consumer groups whose assignment the broker computes (KIP-848): one heartbeat carries everything.

In a heartbeat null means "as I last told you".
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Message, array, wire


class TopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = wire(array(INT32))


class ConsumerGroupHeartbeatRequest(Message, flexible_since=0):
    """Epoch 0 joins, -1 leaves, -2 leaves for a while (static members)."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable=0, default=None)
    rack_id: str | None = wire(STRING, nullable=0, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: list[str] | None = wire(array(STRING), nullable=0, default=None)
    subscribed_topic_regex: str | None = wire(STRING, since=1, nullable=1, default=None)
    server_assignor: str | None = wire(STRING, nullable=0, default=None)
    topic_partitions: list[TopicPartitions] | None = wire(array(TopicPartitions), nullable=0, default=None)


class ConsumerGroupAssignment(Message):
    topic_partitions: list[TopicPartitions] = wire(array(TopicPartitions))


class ConsumerGroupHeartbeatResponse(Message, flexible_since=0):
    """A null assignment means "as before"."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    member_id: str | None = wire(STRING, nullable=0, default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: ConsumerGroupAssignment | None = wire(ConsumerGroupAssignment, nullable=0)


class ConsumerGroupDescribeRequest(Message, flexible_since=0):
    group_ids: list[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


class NamedTopicPartitions(Message):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class MemberAssignment(Message):
    topic_partitions: list[NamedTopicPartitions] = wire(array(NamedTopicPartitions))


class ConsumerGroupMember(Message):
    member_id: str = wire(STRING)
    instance_id: str | None = wire(STRING, nullable=0, default=None)
    rack_id: str | None = wire(STRING, nullable=0, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable=0, default=None)
    assignment: MemberAssignment = wire(MemberAssignment)
    target_assignment: MemberAssignment = wire(MemberAssignment)
    member_type: int = wire(INT8, since=1, default=-1)  # -1 unknown, 0 classic, 1 consumer


class DescribedConsumerGroup(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[ConsumerGroupMember] = wire(array(ConsumerGroupMember))
    authorized_operations: int = wire(INT32, default=-0x80000000)  # a bit per ACL operation


class ConsumerGroupDescribeResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedConsumerGroup] = wire(array(DescribedConsumerGroup))
