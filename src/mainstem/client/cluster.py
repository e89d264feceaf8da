"""What a broker tells about itself, its topics and their records, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mainstem.client import codes
from mainstem.client.settings import Address
from mainstem.model.batch import iter_batches
from mainstem.model.records import Record, decode_records, read_control
from mainstem.wire.kafka.metadata import MetadataResponse, MetadataResponseTopic


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    index: int
    leader: int  # node id; -1: nobody
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    name: str
    id: bytes
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]  # by index
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    id: str | None
    controller: int
    nodes: Mapping[int, Address]
    topics: Mapping[str, TopicInfo]


@dataclass(frozen=True, slots=True)
class OffsetAt:
    """An answer of ListOffsets. Offset -1: there is no such record."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How long a broker may wait for how much, and how much it may send.

    `committed` leaves out what lies behind the first open transaction, and tells which were aborted.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    partition_max_bytes: int = 1 << 20
    committed: bool = False


@dataclass(frozen=True, slots=True)
class Fetched:
    """What one fetch gave of one partition: `records` are whole batches as they are stored."""

    place: TopicPartition
    offset: int  # as asked for
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[
        tuple[int, int], ...
    ]  # (producer id, first offset), when only committed ones were asked for
    records: memoryview

    @property
    def next_offset(self) -> int:
        """Where the next fetch goes on; markers and aborted records are passed too."""
        last = self.offset
        for _, header in iter_batches(self.records):
            last = max(last, header.last_offset + 1)
        return last

    def check(self) -> Fetched:
        codes.check(self.error_code, f"{self.place} at offset {self.offset}")
        return self

    def decoded(self, *, committed: bool = False) -> Iterator[Record]:
        """Its records from the offset that was asked for on, without markers.

        With `committed` records of aborted transactions are left out; ask `fetch` for committed ones too,
        or the list of aborted transactions is not there.
        """
        for batch in self.batches(committed=committed):
            for record in decode_records(batch):
                if record.offset >= self.offset:
                    yield record

    def batches(self, *, committed: bool = False) -> Iterator[memoryview]:
        """What `decoded` decodes, whole: the first may begin below the offset that was asked for."""
        open_aborts: set[int] = set()
        aborted = sorted(self.aborted, key=lambda pair: pair[1], reverse=True)
        for at, header in iter_batches(self.records):
            while committed and aborted and aborted[-1][1] <= header.last_offset:
                open_aborts.add(aborted.pop()[0])
            batch = self.records[at : at + header.size]
            if header.is_control:
                if not read_control(batch):
                    open_aborts.discard(header.producer_id)
                continue
            if committed and header.is_transactional and header.producer_id in open_aborts:
                continue
            yield batch


def cluster_of(answer: MetadataResponse) -> Cluster:
    topics = [_topic(topic) for topic in answer.topics]
    return Cluster(
        answer.cluster_id,
        answer.controller_id,
        {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers},
        {topic.name: topic for topic in topics},
    )


def _topic(topic: MetadataResponseTopic) -> TopicInfo:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicInfo(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionInfo(one.partition_index, one.leader_id, tuple(one.replica_nodes), tuple(one.isr_nodes))
            for one in partitions
        ),
        topic.error_code,
    )
