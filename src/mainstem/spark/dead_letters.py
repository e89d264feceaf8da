"""Records that could not be read go to a topic of their own, as they came, with the reason.

They are sent when they are met: a task that is repeated sends them again.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.producing import Producer
from mainstem.model.records import Record
from mainstem.spark.typed import BadRecord


def send(client: Client, topic: str, source: TopicPartition, bad: Sequence[BadRecord]) -> None:
    producer = Producer(client, topic)
    for one in bad:
        headers = (
            ("mainstem.reason", one.reason.encode()),
            ("mainstem.topic", source.topic.encode()),
            ("mainstem.partition", str(source.partition).encode()),
            ("mainstem.offset", str(one.offset).encode()),
        )
        producer.add(Record(0, one.timestamp_ms, one.key, one.value, headers))
    producer.flush()
