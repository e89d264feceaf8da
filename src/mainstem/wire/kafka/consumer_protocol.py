"""What classic consumers put into JoinGroup and SyncGroup as opaque bytes.

An int16 version precedes either struct.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BYTES, INT32, STRING, Message, array, wire


class TopicPartition(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


class ConsumerProtocolSubscription(Message):
    """What a member wants to read, and what it holds now."""

    topics: list[str] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable=0, default=None)
    owned_partitions: list[TopicPartition] = wire(array(TopicPartition), since=1)
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(STRING, since=3, nullable=3, default=None)


class ConsumerProtocolAssignment(Message):
    """What the leader has given to a member."""

    assigned_partitions: list[TopicPartition] = wire(array(TopicPartition))
    user_data: bytes | None = wire(BYTES, nullable=0, default=None)
