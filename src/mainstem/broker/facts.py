"""What the care for files needs to know of partitions."""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.broker.topics import Topics
from mainstem.kernel.log.facts import CompactPolicy
from mainstem.kernel.log.jobs import BodyId
from mainstem.model.ports import Clock


class PartitionFacts:
    """Answers from memory, by partition id; a partition that is not known is deleted."""

    def __init__(self, topics: Topics, clock: Clock) -> None:
        self._topics = topics
        self._clock = clock

    def floor(self, partition: int) -> int | None:
        found = self._topics.partitions.get(partition)
        return None if found is None else found.log_start

    def compaction(self, partition: int) -> CompactPolicy | None:
        found = self._topics.partitions.get(partition)
        if found is None or not found.topic.policy.compact:
            return None
        policy = found.topic.policy
        return CompactPolicy(policy.delete_retention_ms, policy.min_compaction_lag_ms)

    def stable_offset(self, partition: int) -> int:
        found = self._topics.partitions.get(partition)
        return 0 if found is None else found.last_stable_offset()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def bodies(self) -> Iterable[BodyId]:
        """No state names a body without a link yet."""
        return ()
