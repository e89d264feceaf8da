"""Write from many processes, and have all of it appear at once, once: stage batches, then publish them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainstem.client import codes
from mainstem.client.admin import create_topic
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.model.errors import BrokerRefused, UnknownTopic
from mainstem.wire.kafka.sinks import (
    PublishStagedPartition,
    PublishStagedRequest,
    PublishStagedResponse,
    PublishStagedTopic,
)

STAGING = TopicPartition("__staging", 0)
# What is staged and not published within this time belongs to a writer that is gone.
KEPT_MS = 24 * 3600 * 1000
TOPIC_EXISTS = 36


def prepare(client: Client) -> None:
    """Make the staging topic if it is not there."""
    try:
        client.topic(STAGING.topic)
    except UnknownTopic:
        try:
            create_topic(client, STAGING.topic, 1, {"retention.ms": str(KEPT_MS)})
        except BrokerRefused as refused:
            if refused.code != TOPIC_EXISTS:  # another writer was first
                raise


def stage(client: Client, batch: bytes | bytearray, patience_s: float = 0.0) -> int:
    """Put a batch where nobody sees it in its topic yet; the offset to publish it by.

    What is staged twice, because an answer got lost, is published once.
    """
    return patiently(lambda: client.produce({STAGING: batch})[STAGING], patience_s)


def publish(
    client: Client,
    sink: str,
    batch_id: int,
    staged: Mapping[TopicPartition, Sequence[int]],
    patience_s: float = 0.0,
) -> bool:
    """All of it is visible when this returns; False if this batch of the sink had been published before.

    Asking twice does no harm: the second time finds it done.
    """
    topics: dict[str, list[PublishStagedPartition]] = {}
    for place, offsets in staged.items():
        topics.setdefault(place.topic, []).append(PublishStagedPartition(place.partition, list(offsets)))
    request = PublishStagedRequest(sink, batch_id, [PublishStagedTopic(*one) for one in topics.items()])
    answer = patiently(lambda: client.ask(request, PublishStagedResponse), patience_s)
    codes.check(answer.error_code, f"sink {sink!r}", answer.error_message)
    return not answer.replayed
