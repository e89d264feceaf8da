"""A share group (KIP-932): members read partitions together, and each record goes to one of them.

A partition may be with several members, so nothing need be given up before another takes it: a member has
what the newest assignment gives it as soon as it hears of it. Who got which record is not known here, see
`kernel/subs/leased_lane.py`. Like the other groups it is in memory only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mainstem.kernel.groups.assignors import Assignment, Partition, Reader, uniform_assignor
from mainstem.kernel.groups.classic_messages import Answer
from mainstem.kernel.groups.consumer_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatResult,
    TopicInfo,
    Topics,
)
from mainstem.kernel.groups.deadlines import Deadlines
from mainstem.kernel.groups.share_messages import (
    ShareHeartbeat,
    ShareLimits,
    ShareMemberView,
    ShareState,
    ShareView,
)
from mainstem.model.errors import (
    CoordinatorClosing,
    FencedMemberEpoch,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    MainstemError,
    UnknownMember,
)

ASSIGNOR = "simple"
NOTHING: frozenset[Partition] = frozenset()


@dataclass(slots=True)
class ShareMember:
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Partition] = NOTHING  # what it was last told


def simple_assignor(
    readers: Sequence[Reader], counts: Mapping[bytes, int], before: Mapping[str, frozenset[Partition]]
) -> Assignment:
    """More members than partitions: all read all they want. Otherwise each partition has one member."""
    wanted = {topic_id for reader in readers for topic_id in reader.topic_ids}
    if len(readers) <= sum(counts[topic_id] for topic_id in wanted):
        seen: set[Partition] = set()
        kept: Assignment = {}  # of those that several had, one keeps each
        for reader in readers:
            kept[reader.member_id] = before.get(reader.member_id, NOTHING) - seen
            seen |= kept[reader.member_id]
        return uniform_assignor(readers, counts, kept)
    made: dict[frozenset[bytes], frozenset[Partition]] = {}
    for reader in readers:
        if reader.topic_ids not in made:
            made[reader.topic_ids] = frozenset(
                (topic_id, index) for topic_id in reader.topic_ids for index in range(counts[topic_id])
            )
    return {reader.member_id: made[reader.topic_ids] for reader in readers}


class ShareGroup:
    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.empty_since_ms: int | None = now_ms
        self._dead = False
        self._members: dict[str, ShareMember] = {}
        self._target: Assignment = {}
        self._topics: dict[str, TopicInfo] = {}  # those of the wanted topics that exist
        self._seen_version = -1
        self._someone_left = False  # since the last assignment
        self._deadlines: Deadlines[str] = Deadlines()

    # --- requests ------------------------------------------------------------------------------

    def heartbeat(
        self, request: ShareHeartbeat, topics: Topics, now_ms: int, limits: ShareLimits
    ) -> HeartbeatResult:
        if self._dead:
            raise CoordinatorClosing(self.group_id)
        check_share_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request.member_id, now_ms, limits)
        member, changed = self._member_of(request, limits)
        told = member.assigned
        behind = request.member_epoch != member.epoch  # did not get an answer, nor the assignment in it
        if request.topic_names is not None and request.topic_names != member.topic_names:
            member.topic_names = request.topic_names
            changed = True
        member.rack_id = request.rack_id or member.rack_id
        member.client_id, member.client_host = request.client_id, request.client_host
        self._members[member.member_id] = member
        self.empty_since_ms = None
        self._refresh(changed, topics)
        if member.epoch != self.assignment_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
            member.assigned = self._target.get(member.member_id, NOTHING)
        self._deadlines.set(member.member_id, now_ms + limits.session_timeout_ms)
        tell = request.member_epoch == JOIN_EPOCH or behind or member.assigned != told
        return HeartbeatResult(
            member.member_id,
            member.epoch,
            limits.heartbeat_interval_ms,
            member.assigned if tell else None,
        )

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, now_ms: int, in_txn: bool = False
    ) -> None:
        del member_id, instance_id, epoch, now_ms, in_txn
        raise GroupNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_offsets_delete(self) -> None:
        raise GroupNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_delete(self) -> None:
        if self._dead:
            raise GroupNotFound(self.group_id)
        if self._members:
            raise GroupNotEmpty(self.group_id)

    def describe(self) -> ShareView:
        return ShareView(
            self.group_id,
            self.state,
            self.epoch,
            self.assignment_epoch,
            ASSIGNOR,
            tuple(
                ShareMemberView(
                    member.member_id,
                    member.rack_id,
                    member.epoch,
                    member.client_id,
                    member.client_host,
                    member.topic_names,
                    member.assigned,
                )
                for member in self._members.values()
            ),
        )

    @property
    def state(self) -> ShareState:
        if self._dead:
            return ShareState.DEAD
        return ShareState.STABLE if self._members else ShareState.EMPTY

    @property
    def idle(self) -> bool:
        return not self._members

    # --- time ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def tick(self, now_ms: int) -> list[Answer]:
        """Who has not been heard of for long is a member no more. Nobody ever waits here."""
        for member_id in self._deadlines.due(now_ms):
            self._remove(member_id, now_ms)
        return []

    def close(self, error: MainstemError) -> list[Answer]:
        del error
        self._dead = True
        return []

    # --- members -------------------------------------------------------------------------------

    def _member_of(self, request: ShareHeartbeat, limits: ShareLimits) -> tuple[ShareMember, bool]:
        """The member, and whether it is new."""
        member = self._members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                raise UnknownMember(request.member_id)
            if len(self._members) >= limits.max_members:
                raise GroupFull(f"{self.group_id} has {len(self._members)} members")
            return ShareMember(request.member_id), True
        epochs = (JOIN_EPOCH, member.epoch, member.previous_epoch)
        if request.member_epoch not in epochs:
            raise FencedMemberEpoch(f"{request.member_epoch}, the member is at {member.epoch}")
        return member, False

    def _leave(self, member_id: str, now_ms: int, limits: ShareLimits) -> HeartbeatResult:
        if member_id not in self._members:
            raise UnknownMember(member_id)
        self._remove(member_id, now_ms)
        return HeartbeatResult(member_id, LEAVE_EPOCH, limits.heartbeat_interval_ms)

    def _remove(self, member_id: str, now_ms: int) -> None:
        del self._members[member_id]
        self._target.pop(member_id, None)
        self._deadlines.clear(member_id)
        self.epoch += 1
        self._someone_left = True
        if not self._members:
            self.empty_since_ms = now_ms

    def _refresh(self, changed: bool, topics: Topics) -> None:
        """Raise the epoch and assign anew if members, wishes or topics changed."""
        if changed or self._someone_left or topics.version != self._seen_version:
            self._seen_version = topics.version
            wanted = {name for member in self._members.values() for name in member.topic_names}
            found = {name: info for name in wanted if (info := topics.get(name)) is not None}
            if changed or found != self._topics:
                self.epoch += 1
            self._topics = found
        if self.epoch == self.assignment_epoch:
            return
        self._someone_left = False
        readers = [
            Reader(member.member_id, None, self._topic_ids(member)) for member in self._members.values()
        ]
        counts = {info.topic_id: info.partitions for info in self._topics.values()}
        self._target = simple_assignor(readers, counts, self._target)
        self.assignment_epoch = self.epoch

    def _topic_ids(self, member: ShareMember) -> frozenset[bytes]:
        found = (self._topics.get(name) for name in member.topic_names)
        return frozenset(info.topic_id for info in found if info is not None)


def check_share_heartbeat(request: ShareHeartbeat) -> None:
    """What a heartbeat must say, whatever the group."""
    if not request.member_id:
        raise InvalidRequest("MemberId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequest("RackId can't be empty.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest(f"member epoch {request.member_epoch}")
    if request.member_epoch == JOIN_EPOCH and not request.topic_names:
        raise InvalidRequest("SubscribedTopicNames must be set in first request.")
