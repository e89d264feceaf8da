"""Topics and their partitions: what exists. A state machine of deltas, like everything durable."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mainstem.broker.partition import FIRST_EPOCH, Partition, Topic
from mainstem.broker.policy import Policies
from mainstem.model.errors import InvalidTopicName, UnknownTopic, UnknownTopicId

MAX_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicCreated(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Partition ids are given out one after the other and never again."""

    name: str
    topic_id: bytes
    partition_ids: tuple[int, ...]
    configs: dict[str, str]
    created_ms: int
    internal: bool = False


class PartitionsAdded(msgspec.Struct, array_like=True, tag=2, frozen=True):
    topic_id: bytes
    first_index: int
    partition_ids: tuple[int, ...]


class TopicConfigured(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """All of the topic's own configs, not the difference."""

    topic_id: bytes
    configs: dict[str, str]


class TopicDeleted(msgspec.Struct, array_like=True, tag=4, frozen=True):
    topic_id: bytes


class Trimmed(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """Offsets below `log_start` are gone."""

    partition_id: int
    log_start: int


class PartitionsReached(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """For snapshots: (partition id, log start, next offset) of partitions that are not at 0."""

    reached: tuple[tuple[int, int, int], ...]


class PartitionIdsUsed(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """For snapshots: ids below this one were given out, though their topics may be gone."""

    next_partition_id: int


class OffsetsReserved(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """Offsets below `upto` may have been told to someone before they were on disk; a clean stop undoes it."""

    partition_id: int
    upto: int


class EpochsBegun(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """All leader epochs of a partition with their first offsets; the last one starts its log anew."""

    partition_id: int
    epochs: tuple[tuple[int, int], ...]


TopicDelta = (
    TopicCreated
    | PartitionsAdded
    | TopicConfigured
    | TopicDeleted
    | Trimmed
    | PartitionsReached
    | PartitionIdsUsed
    | OffsetsReserved
    | EpochsBegun
)

# What changes the answer to "which topics are there": offsets do not.
_SEEN_BY_CLIENTS = (TopicCreated, PartitionsAdded, TopicDeleted)

# Partitions per PartitionsReached delta: small enough for a slice of the loop.
_REACHED_AT_ONCE = 1000


def check_topic_name(name: str) -> None:
    if not name:
        raise InvalidTopicName("the empty string is not a topic name")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopicName(f"topic name of {len(name)} characters; at most {MAX_NAME_LENGTH} are allowed")
    if name in (".", "..") or _LEGAL_NAME.fullmatch(name) is None:
        raise InvalidTopicName(f"{name!r} is not a topic name: use letters, digits, '.', '_' and '-'")


class Topics:
    """All topics by name and id, all partitions by id. `version` counts changes of that, for caches."""

    def __init__(self, policies: Policies) -> None:
        self.policies = policies
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.partitions: dict[int, Partition] = {}
        self.next_partition_id = 1
        self.version = 0

    def get(self, name: str) -> Topic:
        topic = self.by_name.get(name)
        if topic is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return topic

    def get_by_id(self, topic_id: bytes) -> Topic:
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with id {topic_id.hex()}")
        return topic

    def name_of(self, topic: str | bytes) -> str:
        """Of a topic that may be named by its id, and deleted: for the log."""
        if isinstance(topic, str):
            return topic
        found = self.by_id.get(topic)
        return topic.hex() if found is None else found.name

    def partition(self, topic: Topic, index: int) -> Partition:
        if not 0 <= index < len(topic.partitions):
            raise UnknownTopic(f"topic {topic.name!r} has no partition {index}")
        return topic.partitions[index]

    def new_partition_ids(self, count: int) -> tuple[int, ...]:
        first = self.next_partition_id
        return tuple(range(first, first + count))

    # --- the machine ---------------------------------------------------------------------------

    def apply(self, delta: TopicDelta) -> None:
        """Also of deltas whose effect is there already: a snapshot may be ahead of its position."""
        if isinstance(delta, _SEEN_BY_CLIENTS):
            self.version += 1
        match delta:
            case TopicCreated(name, topic_id, partition_ids, configs):
                if topic_id in self.by_id:
                    # The snapshot had it. An older topic of this name, replayed just now, may hold the name.
                    self.by_name[name] = self.by_id[topic_id]
                    return
                topic = Topic(name, topic_id, configs, self.policies.of(configs))
                topic.created_ms = delta.created_ms
                topic.internal = delta.internal
                self.by_name[name] = self.by_id[topic_id] = topic
                self._add_partitions(topic, 0, partition_ids)
            case PartitionsAdded(topic_id, first_index, partition_ids):
                if topic_id in self.by_id:
                    self._add_partitions(self.by_id[topic_id], first_index, partition_ids)
            case TopicConfigured(topic_id, configs):
                if topic_id in self.by_id:
                    self.by_id[topic_id].configs = configs
                    self.by_id[topic_id].policy = self.policies.of(configs)
            case TopicDeleted(topic_id):
                self._delete(topic_id)
            case Trimmed(partition_id, log_start):
                self._reach(partition_id, log_start, log_start)
            case PartitionsReached(reached):
                for partition_id, log_start, next_offset in reached:
                    self._reach(partition_id, log_start, next_offset)
            case PartitionIdsUsed(next_partition_id):
                self.next_partition_id = max(self.next_partition_id, next_partition_id)
            case OffsetsReserved(partition_id, upto):
                self._reserve(partition_id, upto)
            case EpochsBegun(partition_id, epochs):
                self._begin_epochs(partition_id, epochs)

    def _reserve(self, partition_id: int, upto: int) -> None:
        partition = self.partitions.get(partition_id)
        if partition is not None:
            partition.reserved = upto

    def _begin_epochs(self, partition_id: int, epochs: tuple[tuple[int, int], ...]) -> None:
        partition = self.partitions.get(partition_id)
        if partition is not None and len(epochs) > len(partition.epochs):
            partition.epochs = epochs
            self._reach(partition_id, 0, epochs[-1][1])

    def _add_partitions(self, topic: Topic, first_index: int, partition_ids: tuple[int, ...]) -> None:
        for index, partition_id in enumerate(partition_ids, first_index):
            if index == len(topic.partitions):
                partition = Partition(partition_id, index, topic)
                topic.partitions.append(partition)
                self.partitions[partition_id] = partition
            self.next_partition_id = max(self.next_partition_id, partition_id + 1)

    def _delete(self, topic_id: bytes) -> None:
        topic = self.by_id.pop(topic_id, None)
        if topic is None:
            return
        if self.by_name.get(topic.name) is topic:
            del self.by_name[topic.name]
        for partition in topic.partitions:
            del self.partitions[partition.id]

    def _reach(self, partition_id: int, log_start: int, next_offset: int) -> None:
        partition = self.partitions.get(partition_id)
        if partition is not None:
            partition.log_start = max(partition.log_start, log_start)
            partition.next_offset = max(partition.next_offset, next_offset)
            partition.high_watermark = max(partition.high_watermark, next_offset)
            if partition.producers is not None:
                partition.producers.trim(partition.log_start)

    def dump(self) -> Iterator[TopicDelta]:
        yield PartitionIdsUsed(self.next_partition_id)
        for topic in list(self.by_id.values()):
            yield TopicCreated(
                topic.name,
                topic.id,
                tuple(partition.id for partition in topic.partitions),
                dict(topic.configs),
                topic.created_ms,
                topic.internal,
            )
        for partition in list(self.partitions.values()):
            if partition.reserved:
                yield OffsetsReserved(partition.id, partition.reserved)
            if partition.epochs is not FIRST_EPOCH:
                yield EpochsBegun(partition.id, partition.epochs)
        reached: list[tuple[int, int, int]] = []
        for partition in list(self.partitions.values()):
            if partition.high_watermark:
                reached.append((partition.id, partition.log_start, partition.high_watermark))
            if len(reached) == _REACHED_AT_ONCE:
                yield PartitionsReached(tuple(reached))
                reached = []
        if reached:
            yield PartitionsReached(tuple(reached))
