"""Topics that a pipeline writes to are there before it starts: others of its parts read them at once."""

from __future__ import annotations

from mainstem.client import Client, admin
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import BrokerRefused
from mainstem.pipeline.parts import Call, Insert, PerMessage, Pipeline, Query, Source
from mainstem.pipeline.settings import elsewhere, text

EXISTS = 36  # Kafka's code for it
BROKERS_OWN = -1  # its default number of partitions


def wanted(pipeline: Pipeline, suffix: str = "") -> dict[str, int]:
    """Partitions by topic."""
    inserted = {part.into.lower() for part in pipeline.parts if isinstance(part, Insert)}
    found: dict[str, int] = {}
    for part in pipeline.parts:
        is_source = isinstance(part, Source) and part.name.lower() not in inserted
        is_here = not isinstance(part, Source | Query | Call | PerMessage) or not elsewhere(part.options)
        if isinstance(part, Source | Query | Call | PerMessage) and not is_source and is_here:
            topic = text(part.options, "topic")
            if topic:
                found[topic + suffix] = int(text(part.options, "partitions") or BROKERS_OWN)
    return found


def make(pipeline: Pipeline, settings: ClientSettings, suffix: str = "") -> None:
    with Client(settings) as client:
        there = client.cluster().topics
        for topic, partitions in wanted(pipeline, suffix).items():
            if topic in there:
                continue
            try:
                admin.create_topic(client, topic, partitions, {})
            except BrokerRefused as refused:
                if refused.code != EXISTS:
                    raise
