"""A topic and its partitions. A partition's owner holds its offsets, its producers, and who waits for it.

Called from the one loop. An idle partition is this object and nothing else: no file, task or timer.

Types for the compiler are in partition.pxd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainstem.broker.policy import TopicPolicy
from mainstem.kernel.log.journal import BatchAppend, Round
from mainstem.kernel.txn.producers import PartitionProducers

Waiter = Callable[[], None]
FIRST_EPOCH = ((0, 0),)
_NO_CONFIGS: Mapping[str, str] = {}


class Topic:
    """A named set of partitions. `configs` are those it has of its own, `policy` is what they mean."""

    __slots__ = ("configs", "created_ms", "id", "internal", "name", "partitions", "policy")

    def __init__(self, name: str, topic_id: bytes, configs: Mapping[str, str], policy: TopicPolicy) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: list[Partition] = []
        self.configs = configs or _NO_CONFIGS
        self.policy = policy
        self.created_ms = 0
        self.internal = False


class Partition:
    """log_start <= high_watermark <= next_offset: between the last two lies what is not yet on disk."""

    __slots__ = (
        "epochs",
        "high_watermark",
        "id",
        "index",
        "log_start",
        "next_offset",
        "producers",
        "reserved",
        "reserved_on_disk",
        "topic",
        "waiters",
    )

    def __init__(self, partition_id: int, index: int, topic: Topic) -> None:
        self.id = partition_id  # never reused
        self.index = index  # its number within the topic
        self.topic = topic
        self.log_start = 0
        self.high_watermark = 0
        self.next_offset = 0
        self.producers: PartitionProducers | None = None
        # (leader epoch, its first offset), oldest first. A new one begins where a power cut may have taken
        # messages that were acknowledged early: readers then learn that offsets were skipped.
        self.epochs: tuple[tuple[int, int], ...] = FIRST_EPOCH
        # Early acknowledged offsets lie below this: no other message will ever get one of them.
        self.reserved = 0
        self.reserved_on_disk = 0
        # Called once, in the turn in which the high watermark grows.
        self.waiters: set[Waiter] | None = None

    @property
    def leader_epoch(self) -> int:
        return self.epochs[-1][0]

    def epoch_end(self, epoch: int) -> tuple[int, int] | None:
        """The last epoch up to the one asked for, and the offset where it ended; None if it has not been."""
        if epoch >= self.leader_epoch:
            return (epoch, self.high_watermark) if epoch == self.leader_epoch else None
        for (known, _), (_, end) in zip(reversed(self.epochs[:-1]), reversed(self.epochs[1:]), strict=True):
            if known <= epoch:
                return known, end
        return None

    def last_stable_offset(self) -> int:
        if self.producers is None:
            return self.high_watermark
        return self.producers.last_stable_offset(self.high_watermark)

    def wait(self, waiter: Waiter) -> None:
        if self.waiters is None:
            self.waiters = set()
        self.waiters.add(waiter)

    def stop_waiting(self, waiter: Waiter) -> None:
        if self.waiters is not None:
            self.waiters.discard(waiter)
            if not self.waiters:
                self.waiters = None

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"


def raise_watermarks(partitions: dict[int, Partition], done: Round) -> set[Waiter] | None:
    """High watermarks grow to what is on disk now; who waited for that."""
    woken: set[Waiter] | None = None
    for append in done.appends:
        if isinstance(append, BatchAppend):
            batch = append
            partition = partitions.get(batch.subject)
            if partition is not None:
                partition.high_watermark = batch.last + 1
                if partition.waiters is not None:
                    woken = partition.waiters | woken if woken else set(partition.waiters)
            continue
        for place in append.places:
            partition = partitions.get(place.partition)
            if partition is not None:
                partition.high_watermark = place.last + 1
                if partition.waiters is not None:
                    woken = partition.waiters | woken if woken else set(partition.waiters)
    return woken
