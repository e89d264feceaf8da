"""A topic that little is written to is compacted, too: nobody waits for a full journal file."""

from __future__ import annotations

from confluent_kafka import Producer
from kafka_kit import PATIENCE_S, until

from mainstem.client import Client, ClientSettings, TopicPartition, parse_bootstrap
from mainstem.client.admin import create_topic
from mainstem.testing import Broker

SOON = {
    "merge.delay_ms": 0,
    "snapshot.interval_ms": 1000,
}


def test_a_quiet_compacted_topic_keeps_the_last_value_of_each_key():
    with Broker(SOON) as broker, Client(ClientSettings(parse_bootstrap(broker.kafka))) as client:
        create_topic(client, "settings", 1, {"cleanup.policy": "compact", "segment.ms": "1"})
        producer = Producer({"bootstrap.servers": broker.kafka})
        for number in range(1000):
            producer.produce("settings", str(number), key=str(number % 10), partition=0)
        assert producer.flush(PATIENCE_S) == 0
        last = [(str(number % 10).encode(), str(number).encode()) for number in range(990, 1000)]
        until(lambda: kept(client) == last, "compaction", 60)


def kept(client: Client) -> list[tuple[bytes | None, bytes | None]]:
    place = TopicPartition("settings", 0)
    start, end = client.bounds(["settings"])[place]
    found: list[tuple[bytes | None, bytes | None]] = []
    while start < end:
        (fetched,) = client.fetch({place: start})
        found += [(record.key, record.value) for record in fetched.check().decoded()]
        start = fetched.next_offset
    return found
