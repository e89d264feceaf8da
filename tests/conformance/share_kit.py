"""A member of a share group that speaks by hand, request by request."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kafka_kit import Wire

from mainstem.model.records import decode_records
from mainstem.wire.kafka.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from mainstem.wire.kafka.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from mainstem.wire.kafka.share_groups import ShareGroupHeartbeatRequest

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP_RESOURCE = 32
Ack = tuple[int, int, Sequence[int]]  # first and last offset, types


def configure(wire: Wire, group: str, **configs: object) -> Any:
    """`share_auto_offset_reset="earliest"` is share.auto.offset.reset."""
    resource = IncrementalAlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configs=[
            IncrementalAlterableConfig(name=name.replace("_", "."), config_operation=0, value=str(value))
            for name, value in configs.items()
        ],
    )
    return wire.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses[0]


class Sharer:
    """With a connection of its own. Reads partition 0 of one topic unless told otherwise."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self.wire = Wire(address)
        self.group, self.topic = group, topic
        self.member = str(uuid.uuid4())
        self.topic_id = self.wire.topic_id(topic)
        self.epoch = 0  # of the session

    def __enter__(self) -> Sharer:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.__exit__()

    def beat(self, epoch: int, topics: list[str] | None = None) -> Any:
        return self.wire.ask(
            ShareGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member,
                member_epoch=epoch,
                subscribed_topic_names=topics,
            )
        )

    def join(self) -> Any:
        answer = self.beat(0, [self.topic])
        assert answer.error_code == 0, answer.error_message
        return answer

    # --- fetch -----------------------------------------------------------------------------------

    def send_fetch(self, acks: Sequence[Ack] = (), version: int = 2, **more: Any) -> None:
        epoch = more.pop("epoch", self.epoch)
        named = ShareFetchPartition(partition_index=0, acknowledgement_batches=_batches(acks))
        topics = [ShareFetchTopic(topic_id=self.topic_id, partitions=[named])] if not epoch or acks else []
        forgotten = more.pop("forget", False)
        wanted = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, **more}
        self.wire.send(
            ShareFetchRequest(
                group_id=self.group,
                member_id=self.member,
                share_session_epoch=epoch,
                topics=topics,
                forgotten_topics_data=[ShareForgottenTopic(topic_id=self.topic_id, partitions=[0])]
                if forgotten
                else [],
                **wanted,
            ),
            version,
        )

    def receive_fetch(self) -> Any:
        answer = self.wire.receive()
        if answer.error_code == 0:
            self.epoch += 1
        return answer

    def ask_fetch(self, acks: Sequence[Ack] = (), **more: Any) -> Any:
        self.send_fetch(acks, **more)
        return self.receive_fetch()

    def fetch(self, acks: Sequence[Ack] = (), **more: Any) -> list[tuple[int, str, int]]:
        """(offset, value, delivery) of what was lent."""
        return lent(self.ask_fetch(acks, **more))

    # --- acknowledge -----------------------------------------------------------------------------

    def acknowledge(self, *acks: Ack, **more: Any) -> Any:
        """The error code of the request, or of its partition."""
        named = AcknowledgePartition(partition_index=0, acknowledgement_batches=_batches(acks))
        topics = [AcknowledgeTopic(topic_id=self.topic_id, partitions=[named])] if acks else []
        version = more.pop("version", 2)
        epoch = more.pop("epoch", self.epoch)
        answer = self.wire.ask(
            ShareAcknowledgeRequest(
                group_id=self.group,
                member_id=self.member,
                share_session_epoch=epoch,
                topics=topics,
                **more,
            ),
            version,
        )
        if answer.error_code:
            return answer.error_code
        self.epoch += 1
        return answer.responses[0].partitions[0].error_code if acks else 0


def _batches(acks: Sequence[Ack]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        for first, last, types in acks
    ]


def lent(answer: Any) -> list[tuple[int, str, int]]:
    assert answer.error_code == 0, answer.error_message
    found: list[tuple[int, str, int]] = []
    for topic in answer.responses:
        for partition in topic.partitions:
            assert partition.error_code == 0, partition.error_message
            values = {
                record.offset: record.value
                for batch in _split(bytes(partition.records or b""))
                for record in decode_records(batch)
            }
            for one in partition.acquired_records:
                for offset in range(one.first_offset, one.last_offset + 1):
                    found.append((offset, (values[offset] or b"").decode(), one.delivery_count))
    return found


def _split(data: bytes) -> list[bytes]:
    batches = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        batches.append(data[:size])
        data = data[size:]
    return batches
