"""Rows become staged batches. Runs in executors, each with a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from mainstem.client import sinks
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.client.patience import patiently
from mainstem.client.producing import packed, partition_of, room_of, size_of
from mainstem.client.settings import ClientSettings
from mainstem.client.sinks import Staged
from mainstem.model.batch import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from mainstem.model.errors import InvalidRecord, InvalidRequest
from mainstem.model.records import Record, encode_batch

CODECS = {"none": NO_CODEC, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
BATCH_BYTES = 512 << 10
COLUMNS = {
    "topic": ("string",),
    "partition": ("int",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What a task needs to know. `topic` counts where rows have none of their own."""

    settings: ClientSettings
    topic: str
    codec: int
    patience_s: float


def check_columns(columns: Mapping[str, str], topic: str) -> None:
    """By name and type, those of Spark's own Kafka connector."""
    names = list(columns)
    if "value" not in names:
        raise InvalidRequest(f"there is no column 'value' among {', '.join(names)}")
    if "topic" not in names and not topic:
        raise InvalidRequest("no topic: give the option topic, or a column of that name")
    for name, kind in columns.items():
        if name not in COLUMNS:
            raise InvalidRequest(f"column {name!r} is not written; there are {', '.join(COLUMNS)}")
        if kind not in COLUMNS[name]:
            raise InvalidRequest(f"column {name!r} is {' or '.join(COLUMNS[name])}, not {kind}")


class Stager:
    """Gathers records by partition and stages a batch whenever one is full."""

    def __init__(self, client: Client, options: WriteOptions) -> None:
        self._client = client
        self._options = options
        self._waiting: dict[TopicPartition, list[Record]] = {}
        self._bytes: dict[TopicPartition, int] = {}
        self._partitions: dict[str, int] = {}
        self._room: dict[str, int] = {}  # of a batch, by topic
        # Where the next batch of records without a key goes: anywhere at first, or small writes would all go
        # to the same partition.
        self._sticky = time.time_ns() // 1000
        self._is_guarded = False
        self.staged: dict[TopicPartition, list[Staged]] = {}
        patiently(lambda: sinks.prepare(client), options.patience_s)

    def add(self, batch: pa.RecordBatch) -> None:
        now_ms = time.time_ns() // 1_000_000
        if "timestamp" in batch.schema.names:
            self._guard(now_ms)
        for topic, partition, key, value, headers, time_us in _rows(batch):
            name = topic or self._options.topic
            if not name:
                raise InvalidRecord("a row without a topic, and there is no option topic")
            time_ms = now_ms if time_us is None else time_us // 1000
            self._gather(name, partition, Record(0, time_ms, key, value, headers))

    def put(self, topic: str, record: Record) -> None:
        """One record; its partition is that of its key."""
        self._gather(topic, None, record)

    def room(self, topic: str) -> int:
        """How many bytes of records a batch of it may hold. Makes the topic if it is not there."""
        self._place(topic, None, None)
        return self._room[topic]

    def _gather(self, topic: str, partition: int | None, record: Record) -> None:
        size = size_of(record)
        place = self._place(topic, partition, record.key)
        limit = min(BATCH_BYTES, self._room[topic])
        # Before it is added: a batch that grows beyond what its topic takes could never be published.
        while place in self._waiting and self._bytes[place] + size > limit:
            self._stage(place)
            place = self._place(topic, partition, record.key)
        self._waiting.setdefault(place, []).append(record)
        self._bytes[place] = self._bytes.get(place, 0) + size

    def _guard(self, now_ms: int) -> None:
        """Stage a record of now that is never published. Retention takes what lies before the first batch
        that is young enough, so nothing behind this one is taken for old, whatever times its records have."""
        if not self._is_guarded:
            batch = encode_batch([Record(0, now_ms, None, None)])
            sinks.stage(self._client, batch, self._options.patience_s)
            self._is_guarded = True

    def finish(self) -> dict[TopicPartition, list[Staged]]:
        """Where everything lies that was added."""
        for place in list(self._waiting):
            self._stage(place)
        return self.staged

    def _place(self, topic: str, partition: int | None, key: bytes | None) -> TopicPartition:
        count = self._partitions.get(topic)
        if count is None:
            found = patiently(lambda: self._client.topic(topic, create=True), self._options.patience_s)
            count = self._partitions[topic] = len(found.partitions)
            self._room[topic] = patiently(lambda: room_of(self._client, topic), self._options.patience_s)
        if partition is None:
            partition = self._sticky % count if key is None else partition_of(key, count)
        elif not 0 <= partition < count:
            raise InvalidRecord(f"a row for partition {partition} of topic {topic!r}, which has {count}")
        return TopicPartition(topic, partition)

    def _stage(self, place: TopicPartition) -> None:
        batch = packed(self._waiting.pop(place), self._options.codec, self._room[place.topic])
        del self._bytes[place]
        self.staged.setdefault(place, []).append(sinks.stage(self._client, batch, self._options.patience_s))
        self._sticky += 1


class Row(NamedTuple):
    topic: str | None
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    time_us: int | None  # None: now


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    none = [None] * len(batch)
    held = {name: batch.column(name) for name in batch.schema.names}
    if "timestamp" in held:
        held["timestamp"] = held["timestamp"].cast(pa.int64())  # numbers instead of an object for each time
    columns = (held[name].to_pylist() if name in held else none for name in COLUMNS)
    for topic, partition, key, value, headers, time_us in zip(*columns, strict=True):
        pairs = tuple((one["key"], one["value"]) for one in headers) if headers else ()
        yield Row(topic, partition, _bytes(key), _bytes(value), pairs, time_us)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
