"""Write from many processes, and have all of it appear at once, once: stage batches, then publish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mainstem.client import codes
from mainstem.client.admin import create_topic
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.batch import read_header
from mainstem.model.errors import BrokerRefused, UnknownTopic
from mainstem.wire.kafka.sinks import (
    PublishStagedPartition,
    PublishStagedRequest,
    PublishStagedResponse,
    PublishStagedTopic,
    StagedBatch,
)

STAGING = TopicPartition("__staging", 0)
# What is staged and not published within this time belongs to a writer that is gone. The rest is so that no
# default of the broker's can get in the way.
CONFIGS = {
    "retention.ms": str(24 * 3600 * 1000),
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(64 << 20),
}


class Staged(NamedTuple):
    """A batch in the staging topic."""

    offset: int
    crc: int
    records: int


def prepare(client: Client) -> None:
    """Make the staging topic if it is not there."""
    try:
        client.topic(STAGING.topic)
    except UnknownTopic:
        try:
            create_topic(client, STAGING.topic, 1, CONFIGS)
        except BrokerRefused as refused:
            if refused.code != codes.TOPIC_EXISTS:  # another writer was first
                raise


def stage(client: Client, batch: bytes | bytearray, patience_s: float = 0.0) -> Staged:
    """Put a batch where nobody sees it in its topic yet.

    What is staged twice, because an answer got lost, is published once.
    """
    header = read_header(batch)
    offset = patiently(lambda: client.produce({STAGING: batch})[STAGING], patience_s)
    return Staged(offset, header.crc, header.record_count)


def publish(
    client: Client,
    sink: str,
    batch_id: int,
    staged: Mapping[TopicPartition, Sequence[Staged]],
    patience_s: float = 0.0,
    *,
    may_skip: bool = False,
) -> bool:
    """All of it is visible when this returns; False if this batch of the sink had been published before.

    `may_skip`: the number need only be above the last one; otherwise it must be the next.
    Asking twice does no harm: the second time finds it done.
    """
    topics: dict[str, list[PublishStagedPartition]] = {}
    for place, some in staged.items():
        batches = [StagedBatch(one.offset, one.crc) for one in some]
        topics.setdefault(place.topic, []).append(PublishStagedPartition(place.partition, batches))
    records = sum(one.records for some in staged.values() for one in some)
    wanted = [PublishStagedTopic(*one) for one in topics.items()]
    request = PublishStagedRequest(sink, batch_id, records, wanted, may_skip)
    answer = patiently(lambda: client.ask(request, PublishStagedResponse), patience_s)
    codes.check(answer.error_code, f"sink {sink!r}", answer.error_message)
    return not answer.replayed
