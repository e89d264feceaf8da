"""A share group (KIP-932): members read partitions together, and each record goes to one of them.

A partition may be with several members, so nothing need be given up before another takes it: a member has
what the newest assignment gives it as soon as it hears of it. Who got which record is not known here, see
`kernel/subs/leased_lane.py`. Like the other groups it is in memory only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mainstem.kernel.groups.assignors import Assignment, Partition, Reader, uniform_assignor, wanted_topics
from mainstem.kernel.groups.classic_messages import Answer
from mainstem.kernel.groups.consumer_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    HeartbeatResult,
    Topics,
)
from mainstem.kernel.groups.deadlines import Deadlines
from mainstem.kernel.groups.room import Holding, Room, group_bytes, text_bytes
from mainstem.kernel.groups.share_messages import (
    ShareHeartbeat,
    ShareLimits,
    ShareMemberView,
    ShareState,
    ShareView,
)
from mainstem.kernel.groups.subscriptions import NO_WISH, PARTITION_BYTES, Subscriptions, Wish
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
# What a member takes beside the strings it sends and the topics it wants.
MEMBER_BYTES = 700


@dataclass(slots=True)
class ShareMember:
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    wish: Wish = NO_WISH
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[Partition] = NOTHING  # what it was last told

    def size(self) -> int:
        """In bytes, as limits count it; what it wants is counted where it is kept."""
        return _size(self.member_id, self.rack_id, self.client_id, self.client_host)

    def size_after(self, request: ShareHeartbeat) -> int:
        return _size(self.member_id, request.rack_id or self.rack_id, request.client_id, request.client_host)


def _size(*texts: str | None) -> int:
    return MEMBER_BYTES + sum(text_bytes(text) for text in texts if text)


def simple_assignor(
    readers: Sequence[Reader],
    counts: Mapping[bytes, int],
    before: Mapping[str, frozenset[Partition]],
    told: Iterable[frozenset[Partition]] = (),
) -> Assignment:
    """More members than partitions: all read all they want. Otherwise each partition has one member.

    `told`: sets that members were told, `before` or long ago. Those that are made again are not made anew:
    members that have not heard of the new ones hold the old ones.
    """
    known = {one: one for one in (*before.values(), *told)}
    if len(readers) <= sum(counts[topic_id] for topic_id in wanted_topics(readers)):
        seen: set[Partition] = set()
        given: set[frozenset[Partition]] = set()
        kept: Assignment = {}  # of those that several had, one keeps each
        for reader in readers:
            had = before.get(reader.member_id, NOTHING)
            kept[reader.member_id] = NOTHING if had in given else had - seen
            given.add(had)
            seen |= kept[reader.member_id]
        assigned = uniform_assignor(readers, counts, kept)
        return {member_id: known.get(one, one) for member_id, one in assigned.items()}
    made: dict[frozenset[bytes], frozenset[Partition]] = {}
    for reader in readers:
        if reader.topic_ids not in made:
            everything = frozenset(
                (topic_id, index) for topic_id in reader.topic_ids for index in range(counts[topic_id])
            )
            made[reader.topic_ids] = known.get(everything, everything)
    return {reader.member_id: made[reader.topic_ids] for reader in readers}


class ShareGroup:
    def __init__(self, group_id: str, now_ms: int, room: Room | None = None) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.empty_since_ms: int | None = now_ms
        self._dead = False
        self._members: dict[str, ShareMember] = {}
        self._target: Assignment = {}
        # Where there are more members than partitions, all with equal wishes share one set.
        self._subscriptions = Subscriptions(set_bytes=PARTITION_BYTES)
        self._outdated_size = 0  # bytes of the sets that members were told and no target has any more
        self._holding = Holding(room or Room(), group_bytes(group_id))
        self._members_size = 0  # bytes, without what they want
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
        known = self._known(request, limits)
        request = self._check_room(known, request, topics, limits)
        member = known or ShareMember(request.member_id)
        told = member.assigned
        behind = request.member_epoch != member.epoch  # did not get an answer, nor the assignment in it
        changed = self._take_over_what_is_said(member, known is None, request)
        self._members[member.member_id] = member
        self.empty_since_ms = None
        self._refresh(changed, topics)
        self._count()
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
                    member.wish.names,
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
        self._deadlines = Deadlines()
        self._holding.give_back()
        return []

    # --- members -------------------------------------------------------------------------------

    def _known(self, request: ShareHeartbeat, limits: ShareLimits) -> ShareMember | None:
        """The member; None: the group has to make room for it."""
        member = self._members.get(request.member_id)
        if member is None:
            if request.member_epoch != JOIN_EPOCH:
                raise UnknownMember(request.member_id)
            if len(self._members) >= limits.max_members:
                raise GroupFull(f"{self.group_id} has {len(self._members)} members")
            return None
        epochs = (JOIN_EPOCH, member.epoch, member.previous_epoch)
        if request.member_epoch not in epochs:
            raise FencedMemberEpoch(f"{request.member_epoch}, the member is at {member.epoch}")
        return member

    def _check_room(
        self, known: ShareMember | None, request: ShareHeartbeat, topics: Topics, limits: ShareLimits
    ) -> ShareHeartbeat:
        """What of the heartbeat there is room for, as in consumer groups: all that it wants, or an error.
        Who is in and wants nothing new goes by its old names where there is no room for longer ones."""
        member = known or ShareMember(request.member_id)
        wanted = 0
        if request.topic_names is not None:
            old = None if known is None else known.wish
            wanted = self._subscriptions.more_for(old, Wish(request.topic_names), None, topics)
        said = member.size_after(request) - (0 if known is None else known.size())
        if known is None:
            wanted += said
        self._holding.check_subscription(self.group_id, wanted, limits.max_group_bytes)
        if known is None or self._holding.fits(wanted + said, limits.max_group_bytes):
            return request
        return replace(request, rack_id=None, client_id=known.client_id, client_host=known.client_host)

    def _take_over_what_is_said(self, member: ShareMember, is_new: bool, request: ShareHeartbeat) -> bool:
        """True if that calls for a new assignment."""
        self._members_size += member.size_after(request) - (0 if is_new else member.size())
        member.rack_id = request.rack_id or member.rack_id
        member.client_id, member.client_host = request.client_id, request.client_host
        if request.topic_names is None or (not is_new and request.topic_names == member.wish.names):
            return is_new
        wish_before, member.wish = member.wish, self._subscriptions.keep(Wish(request.topic_names))
        if not is_new:
            self._subscriptions.drop(wish_before)
        return True

    def _count(self) -> None:
        self._holding.hold(self._members_size + self._subscriptions.held + self._outdated_size)

    def _leave(self, member_id: str, now_ms: int, limits: ShareLimits) -> HeartbeatResult:
        if member_id not in self._members:
            raise UnknownMember(member_id)
        self._remove(member_id, now_ms)
        return HeartbeatResult(member_id, LEAVE_EPOCH, limits.heartbeat_interval_ms)

    def _remove(self, member_id: str, now_ms: int) -> None:
        member = self._members.pop(member_id)
        self._members_size -= member.size()
        self._subscriptions.drop(member.wish)
        if not self._members:
            self._outdated_size = 0
        self._count()
        self._target.pop(member_id, None)
        self._deadlines.clear(member_id)
        self.epoch += 1
        if not self._members:
            self.empty_since_ms = now_ms

    def _refresh(self, changed: bool, topics: Topics) -> None:
        """Raise the epoch and assign anew if members, wishes or topics changed."""
        if self._subscriptions.refresh(topics, 0) or changed:
            self.epoch += 1
        if self.epoch == self.assignment_epoch:
            return
        readers = [
            Reader(member.member_id, None, self._subscriptions.topic_ids_of(member.wish))
            for member in self._members.values()
        ]
        told = {id(member.assigned): member.assigned for member in self._members.values()}
        counts = self._subscriptions.partition_counts()
        self._target = simple_assignor(readers, counts, self._target, told.values())
        for one in self._target.values():
            told.pop(id(one), None)
        # Until the next target they only become fewer.
        self._outdated_size = PARTITION_BYTES * sum(map(len, told.values()))
        self.assignment_epoch = self.epoch


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
