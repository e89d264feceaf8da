"""Topics that Spark jobs of the bench read and write: filled with rows, counted."""

from __future__ import annotations

import time

from bench.peers import Server
from mainstem.client import Client, ClientSettings, TopicPartition, admin, parse_bootstrap
from mainstem.model.records import Record, encode_batch

PARTITIONS = 4
BATCH_ROWS = 1000
REGIONS = ("north", "south", "east", "west")


def client_of(server: Server) -> Client:
    return Client(ClientSettings(parse_bootstrap(f"127.0.0.1:{server.port}")))


def order(i: int) -> bytes:
    """98 bytes or so."""
    minute, second = i // 60 % 60, i % 60
    return (
        f'{{"id":{1_000_000 + i},"region":"{REGIONS[i % 4]}","customer":"c{i % 1000:03d}",'
        f'"amount":{i % 500}.25,"at":"2024-05-01T10:{minute:02d}:{second:02d}Z"}}'
    ).encode()


def filler(record_bytes: int) -> bytes:
    return (b"0123456789abcdef" * (record_bytes // 16 + 1))[:record_bytes]


def fill(server: Server, topic: str, rows: int, record_bytes: int | None) -> None:
    """A new topic, with the same batches again and again: only their number counts. No size: JSON orders."""
    with client_of(server) as client:
        admin.create_topic(client, topic, PARTITIONS)
        client.topic(topic)
        values = [order(i) if record_bytes is None else filler(record_bytes) for i in range(BATCH_ROWS)]
        now_ms = int(time.time() * 1000)  # records of long ago would go with the next retention pass
        batch = encode_batch([Record(0, now_ms + i, None, value) for i, value in enumerate(values)])
        for first in range(0, rows // BATCH_ROWS, PARTITIONS):
            ahead = min(PARTITIONS, rows // BATCH_ROWS - first)
            client.produce({TopicPartition(topic, number): batch for number in range(ahead)})


def held(server: Server, topic: str) -> int:
    """How many rows lie in it."""
    with client_of(server) as client:
        return sum(end - first for first, end in client.bounds([topic]).values())
