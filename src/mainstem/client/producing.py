"""Records into batches: which partition by key, when a batch is full, who is told.

Partitions by key are those of Kafka's own clients (murmur2), so that a key goes where they would send it.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstem.client.client import ACKS_ALL, Client
from mainstem.client.cluster import TopicPartition
from mainstem.model.batch import NO_CODEC
from mainstem.model.records import Record, encode_batch

RECORD_OVERHEAD_BYTES = 32  # about: lengths, timestamp, offset
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
        self._batch_bytes = batch_bytes
        self._acks = acks
        self._sent = sent
        self._waiting: dict[int, list[Record]] = {}
        self._bytes: dict[int, int] = {}
        self._sticky = 0

    def add(self, record: Record, partition: int | None = None) -> None:
        """Take a record; sends when a batch is full."""
        if partition is None:
            partition = self._sticky if record.key is None else partition_of(record.key, self._partitions)
        size = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        size += sum(len(name) + len(value or b"") for name, value in record.headers)
        self._waiting.setdefault(partition, []).append(record)
        self._bytes[partition] = self._bytes.get(partition, 0) + size
        if self._bytes[partition] >= self._batch_bytes:
            self._send([partition])
            if partition == self._sticky:
                self._sticky = (self._sticky + 1) % self._partitions

    def flush(self) -> None:
        """Everything taken is acknowledged when this returns."""
        self._send(list(self._waiting))

    def _send(self, partitions: list[int]) -> None:
        batches = {
            TopicPartition(self._topic, partition): encode_batch(self._waiting[partition], codec=self._codec)
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
