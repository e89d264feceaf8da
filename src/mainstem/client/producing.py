"""Records into batches: which partition by key, when a batch is full, who is told.

Partitions by key are those of Kafka's own clients (murmur2), so that a key goes where they would send it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainstem.client.admin import TOPIC, configs_of
from mainstem.client.client import ACKS_ALL, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.batch import BATCH_OVERHEAD, NO_CODEC
from mainstem.model.errors import BrokerRefused
from mainstem.model.records import Record, encode_batch

# At most: lengths, timestamp and offset are numbers of as many bytes as they need.
RECORD_OVERHEAD_BYTES = 36
HEADER_OVERHEAD_BYTES = 10
MAX_MESSAGE_BYTES = 1_048_588  # of a topic that says nothing else
_MULTIPLIER, _SHIFT, _SEED = 0x5BD1E995, 24, 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, as Kafka's Java client computes it over a key."""
    length = len(data)
    value = (_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        part ^= part >> _SHIFT
        value = (value * _MULTIPLIER & _MASK) ^ (part * _MULTIPLIER & _MASK)
    if length > whole:
        value ^= int.from_bytes(data[whole:], "little")
        value = value * _MULTIPLIER & _MASK
    value ^= value >> 13
    value = value * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def size_of(record: Record) -> int:
    """What it takes in a batch, at most."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
    return size


def room_of(client: Client, topic: str) -> int:
    """How many bytes of records one batch of this topic may hold; Kafka's default if that is not told."""
    try:
        found = {config.name: config.value for config in configs_of(client, TOPIC, topic)}
    except BrokerRefused:  # to write it does not mean to be told of it
        found = {}
    return int(found.get("max.message.bytes") or MAX_MESSAGE_BYTES) - BATCH_OVERHEAD


def packed(records: Sequence[Record], codec: int, room: int) -> bytearray:
    """A batch, compressed unless that makes it larger than the topic takes."""
    batch = encode_batch(records, codec=codec)
    if codec != NO_CODEC and len(batch) > room + BATCH_OVERHEAD:
        plain = encode_batch(records)
        return min(batch, plain, key=len)
    return batch


class Producer:
    """Gathers records of one topic and sends them: a batch per partition, one request at a time.

    Records without a key fill one partition's batch after another's. `sent` is told of every batch that was
    acknowledged: partition, first offset, number of records.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        codec: int = NO_CODEC,
        batch_bytes: int = 512 << 10,
        acks: int = ACKS_ALL,
        sent: Callable[[TopicPartition, int, int], None] | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._partitions = len(client.topic(topic, create=True).partitions)
        self._codec = codec
        self.room = room_of(client, topic)
        self._batch_bytes = min(batch_bytes, self.room)
        self._acks = acks
        self._sent = sent
        self._waiting: dict[int, list[Record]] = {}
        self._bytes: dict[int, int] = {}
        self._sticky = 0

    def add(self, record: Record, partition: int | None = None) -> None:
        """Take a record; sends what waits first, if that and this are more than a batch."""
        size = size_of(record)
        place = self._place(record, partition)
        while self._waiting.get(place) and self._bytes[place] + size > self._batch_bytes:
            self._send([place])
            if place == self._sticky:
                self._sticky = (self._sticky + 1) % self._partitions
            place = self._place(record, partition)
        self._waiting.setdefault(place, []).append(record)
        self._bytes[place] = self._bytes.get(place, 0) + size

    def _place(self, record: Record, partition: int | None) -> int:
        if partition is not None:
            return partition
        return self._sticky if record.key is None else partition_of(record.key, self._partitions)

    def flush(self) -> None:
        """Everything taken is acknowledged when this returns."""
        self._send(list(self._waiting))

    def _send(self, partitions: list[int]) -> None:
        batches = {
            TopicPartition(self._topic, partition): packed(self._waiting[partition], self._codec, self.room)
            for partition in partitions
        }
        if not batches:
            return
        offsets = self._client.produce(batches, acks=self._acks)
        for place, offset in offsets.items():
            records = self._waiting.pop(place.partition)
            del self._bytes[place.partition]
            if self._sent is not None:
                self._sent(place, offset, len(records))
