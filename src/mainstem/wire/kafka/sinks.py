"""Mainstem's own: what many writers staged becomes visible in one step. Not an API of Kafka's.

It is offered only to clients that say they are Mainstem's, so that no other meets a number it does not know.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT16, INT32, INT64, STRING, Message, array, wire


class StagedBatch(Message):
    """A batch by its offset in the staging topic, and its crc: who staged it knows that."""

    offset: int = wire(INT64)
    crc: int = wire(INT64)


class PublishStagedPartition(Message):
    """Batches for one partition, in the order that they get there."""

    index: int = wire(INT32)
    batches: list[StagedBatch] = wire(array(StagedBatch))


class PublishStagedTopic(Message):
    name: str = wire(STRING)
    partitions: list[PublishStagedPartition] = wire(array(PublishStagedPartition))


class PublishStagedRequest(Message, flexible_since=0):
    sink: str = wire(STRING)
    batch_id: int = wire(INT64)
    records: int = wire(INT64)  # in all of its batches
    topics: list[PublishStagedTopic] = wire(array(PublishStagedTopic))
    may_skip: bool = wire(BOOL, tag=0, default=False)  # numbers may be left out before this one


class PublishStagedResponse(Message, flexible_since=0):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    replayed: bool = wire(BOOL)
