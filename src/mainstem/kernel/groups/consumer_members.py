"""A member of a consumer group and its way from what it has to what it is to have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from mainstem.kernel.groups.assignors import Partition
from mainstem.kernel.groups.consumer_messages import ConsumerHeartbeat
from mainstem.kernel.groups.room import text_bytes
from mainstem.kernel.groups.subscriptions import NO_WISH, Wish
from mainstem.model.errors import FencedMemberEpoch, UnknownMember

NOTHING: frozenset[Partition] = frozenset()
# What a member takes beside the strings it sends and the topics it wants.
MEMBER_BYTES = 1000


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
    wish: Wish = NO_WISH
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = 0
    progress: Progress = Progress.DONE
    assigned: frozenset[Partition] = NOTHING  # what it was last told it has
    revoking: frozenset[Partition] = NOTHING  # what it was told to give up and may still hold

    def update(self, request: ConsumerHeartbeat) -> bool:
        """Take over what the heartbeat says; True if that calls for a new assignment."""
        before = (self.wish, self.assignor)
        self.wish = self.wish_after(request)
        if request.rebalance_timeout_ms is not None:
            self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.instance_id = request.instance_id or self.instance_id
        self.rack_id = request.rack_id or self.rack_id
        self.assignor = request.assignor or self.assignor
        self.client_id, self.client_host = request.client_id, request.client_host
        return before != (self.wish, self.assignor)

    def wish_after(self, request: ConsumerHeartbeat) -> Wish:
        if request.topic_names is None and request.topic_regex is None:
            return self.wish
        return Wish(
            self.wish.names if request.topic_names is None else request.topic_names,
            self.wish.regex if request.topic_regex is None else request.topic_regex,
        )

    def size(self) -> int:
        """In bytes, as limits count it; what it wants is counted where it is kept."""
        names = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host)
        return MEMBER_BYTES + sum(text_bytes(name) for name in names if name)

    def more_for(self, request: ConsumerHeartbeat) -> int:
        """How much larger it is once it took over what the heartbeat says."""
        more = text_bytes(request.client_id) - text_bytes(self.client_id)
        more += text_bytes(request.client_host) - text_bytes(self.client_host)
        for said, known in ((request.rack_id, self.rack_id), (request.instance_id, self.instance_id)):
            more += text_bytes(said) - text_bytes(known or "") if said else 0
        return more

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
