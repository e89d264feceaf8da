"""Mainstem's own: what many writers staged becomes visible in one step. Not an API of Kafka's.

It is offered only to clients that say they are Mainstem's, so that no other meets a number it does not know.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT16, INT32, INT64, STRING, Message, array, wire


class PublishStagedPartition(Message):
    """Batches for one partition, by their offsets in the staging topic, in the order that they get here."""

    index: int = wire(INT32)
    staged_offsets: list[int] = wire(array(INT64))


class PublishStagedTopic(Message):
    name: str = wire(STRING)
    partitions: list[PublishStagedPartition] = wire(array(PublishStagedPartition))


class PublishStagedRequest(Message, flexible_since=0):
    sink: str = wire(STRING)
    batch_id: int = wire(INT64)
    topics: list[PublishStagedTopic] = wire(array(PublishStagedTopic))


class PublishStagedResponse(Message, flexible_since=0):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    replayed: bool = wire(BOOL)
