"""A member of a consumer group and its way from what it has to what it is to have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mainstem.kernel.groups.assignors import Partition
from mainstem.kernel.groups.consumer_messages import ConsumerHeartbeat
from mainstem.model.errors import FencedMemberEpoch, UnknownMember

NOTHING: frozenset[Partition] = frozenset()


class Progress(Enum):
    DONE = 0  # has what the epoch it reached gives it
    REVOKING = 1  # was told to give partitions up, has not said yet that it did
    WAITING = 2  # some of its partitions are still with others


@dataclass(slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = 0
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    progress: Progress = Progress.DONE
    assigned: frozenset[Partition] = NOTHING  # what it was last told it has
    revoking: frozenset[Partition] = NOTHING  # what it was told to give up and may still hold

    def update(self, request: ConsumerHeartbeat) -> bool:
        """Take over what the heartbeat says; True if that calls for a new assignment."""
        before = (self.topic_names, self.topic_regex, self.assignor)
        if request.topic_names is not None:
            self.topic_names = request.topic_names
        if request.topic_regex is not None:
            self.topic_regex = request.topic_regex
        if request.rebalance_timeout_ms is not None:
            self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.instance_id = request.instance_id or self.instance_id
        self.rack_id = request.rack_id or self.rack_id
        self.assignor = request.assignor or self.assignor
        self.client_id, self.client_host = request.client_id, request.client_host
        return before != (self.topic_names, self.topic_regex, self.assignor)

    def check_instance(self, instance_id: str | None) -> None:
        if instance_id is not None and instance_id != self.instance_id:
            raise UnknownMember(f"{self.member_id} is not {instance_id!r}")

    def check_epoch(self, request: ConsumerHeartbeat) -> None:
        """The answer that raised the epoch may have been lost: one behind is fine if what it owns fits."""
        if request.member_epoch == self.epoch:
            return
        fits = request.owned is not None and request.owned <= self.assigned
        if request.member_epoch != self.previous_epoch or not fits:
            raise FencedMemberEpoch(f"{request.member_epoch}, the member is at {self.epoch}")

    def holds(self) -> frozenset[Partition]:
        return self.assigned | self.revoking

    def is_reconciled(self, target_epoch: int) -> bool:
        return self.progress is Progress.DONE and self.epoch == target_epoch

    def reconcile(
        self,
        target_epoch: int,
        target: frozenset[Partition],
        owned: frozenset[Partition] | None,
        is_free: Callable[[Partition], bool],
    ) -> None:
        """One step towards `target`: first give up, then take what is free, then wait for the rest.

        Only when everything to be given up is gone does the member reach the target's epoch.
        """
        epoch = self.epoch
        if self.progress is Progress.REVOKING:
            if _still_owns(owned, self.revoking):
                return
            epoch += 1
        kept = self.assigned & target
        to_revoke = self.assigned - target
        if to_revoke and _still_owns(owned, to_revoke):
            self._reach(epoch, Progress.REVOKING, kept, to_revoke)
            return
        # What this member just gave up is free for it, too.
        missing = target - kept
        taken = {partition for partition in missing if is_free(partition) or partition in self.revoking}
        progress = Progress.DONE if len(taken) == len(missing) else Progress.WAITING
        self._reach(target_epoch, progress, kept | taken, NOTHING)

    def _reach(
        self,
        epoch: int,
        progress: Progress,
        assigned: frozenset[Partition],
        revoking: frozenset[Partition],
    ) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch
        self.progress, self.assigned, self.revoking = progress, assigned, revoking


def _still_owns(owned: frozenset[Partition] | None, partitions: frozenset[Partition]) -> bool:
    return owned is None or bool(owned & partitions)
