"""A group of the consumer protocol (KIP-848): the broker assigns, and members move there one by one.

Three epochs drive it. The group's rises when a member or what it wants changes, or when a topic does. For
each, one target assignment is made. A member then walks towards it at its own pace, in its heartbeats: it
gives up what is no longer its own, says so, and only then takes what others have given up. So nobody stops
reading what it keeps, and no partition is ever with two members.

Like the classic group it is in memory only: after a restart every member is unknown and joins again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from mainstem.kernel.groups.assignors import ASSIGNORS, Partition, Reader
from mainstem.kernel.groups.classic_messages import Answer
from mainstem.kernel.groups.consumer_members import NOTHING, ConsumerMember, Progress
from mainstem.kernel.groups.consumer_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerLimits,
    ConsumerMemberView,
    ConsumerState,
    ConsumerView,
    HeartbeatResult,
    Topics,
)
from mainstem.kernel.groups.deadlines import Deadlines
from mainstem.kernel.groups.room import Holding, Room, group_bytes, text_bytes
from mainstem.kernel.groups.subscriptions import PARTITION_BYTES, Subscriptions, TriedPattern
from mainstem.model.errors import (
    CoordinatorClosing,
    FencedInstanceId,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InvalidRequest,
    MainstemError,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)

# A partition that a member holds, with its owner: seen with CPython 3.11, rounded. If the target has it, too,
# it may have another object for it.
OWNED_BYTES = 180

SESSION, REVOCATION = "session", "revocation"  # the two kinds of deadline


class ConsumerGroup:
    def __init__(
        self, group_id: str, now_ms: int, limits: ConsumerLimits | None = None, room: Room | None = None
    ) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.assignment_epoch = 0
        self.empty_since_ms: int | None = now_ms
        self._limits = limits or ConsumerLimits()
        self._holding = Holding(room or Room(self._limits.max_total_bytes), group_bytes(group_id))
        self._members_size = 0  # bytes, without what they want
        self._dead = False
        self._members: dict[str, ConsumerMember] = {}
        self._static: dict[str, str] = {}  # instance id -> member id
        self._target: dict[str, frozenset[Partition]] = {}
        self._owners: dict[Partition, str] = {}  # of every partition that a member holds or may still hold
        self._most_owned = 0  # since `_owners` was made
        self._subscriptions = Subscriptions(
            self._limits.pattern_refresh_ms, target_bytes=PARTITION_BYTES, owned_bytes=OWNED_BYTES
        )
        self._assignor = self._limits.assignors[0]
        self._someone_left = False  # since the last target; what it wanted may be nobody's wish now
        self._deadlines: Deadlines[tuple[str, str]] = Deadlines()  # (kind, member id)

    # --- requests ------------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerHeartbeat, topics: Topics, now_ms: int) -> HeartbeatResult:
        if self._dead:
            raise CoordinatorClosing(self.group_id)
        check_heartbeat(request)
        if request.assignor is not None and request.assignor not in self._limits.assignors:
            offered = ", ".join(self._limits.assignors)
            raise UnsupportedAssignor(f"{request.assignor!r}; this broker has {offered}")
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(request, now_ms)
        known = self._known(request)
        tried = self._subscriptions.tried(request.topic_regex, topics)
        request = self._check_room(known, request, tried, topics)
        member = self._enter(known, request)
        told = member.assigned
        behind = request.member_epoch != member.epoch  # did not get an answer, nor the assignment in it
        changed = self._take_over_what_is_said(member, known, request, tried)
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self.empty_since_ms = None
        self._refresh(changed, topics, now_ms)
        self._walk(member, request.owned, now_ms)
        self._count()
        self._deadlines.set((SESSION, member.member_id), now_ms + self._limits.session_timeout_ms)
        tell = request.is_full or behind or member.assigned != told
        return self._result(member.member_id, member.epoch, member.assigned if tell else None)

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, now_ms: int, in_txn: bool = False
    ) -> None:
        """May these offsets be committed? `epoch` below zero is a writer outside the group."""
        del instance_id, now_ms  # the member id says enough, and only heartbeats keep a session
        if self._dead:
            raise CoordinatorClosing(self.group_id)
        if epoch < 0 and not self._members:
            return
        self._check_member_epoch(member_id, epoch, in_txn)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """May committed offsets be read? Whoever does not claim to be a member always may."""
        if not member_id and epoch < 0:
            return
        self._check_member_epoch(member_id or "", epoch, in_txn=False)

    def check_delete(self) -> None:
        if self._dead:
            raise GroupNotFound(self.group_id)
        if self._members:
            raise GroupNotEmpty(self.group_id)

    def check_offsets_delete(self) -> None:
        """Always possible but for topics that the group `reads`."""
        if self._dead:
            raise GroupNotFound(self.group_id)

    def reads(self, topic_name: str) -> bool:
        return self._subscriptions.reads(topic_name)

    def describe(self) -> ConsumerView:
        return ConsumerView(
            self.group_id,
            self.state,
            self.epoch,
            self.assignment_epoch,
            self._assignor,
            tuple(
                ConsumerMemberView(
                    member.member_id,
                    member.instance_id,
                    member.rack_id,
                    member.epoch,
                    member.client_id,
                    member.client_host,
                    member.wish.names,
                    member.wish.regex,
                    member.assigned,
                    self._target.get(member.member_id, NOTHING),
                )
                for member in self._members.values()
            ),
        )

    @property
    def state(self) -> ConsumerState:
        if self._dead:
            return ConsumerState.DEAD
        if not self._members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self._members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def idle(self) -> bool:
        return not self._members

    # --- time ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def tick(self, now_ms: int) -> list[Answer]:
        """Put out members that were silent for too long or did not give up partitions in time."""
        for _, member_id in self._deadlines.due(now_ms):
            if member_id in self._members:
                self._remove(member_id, now_ms)
        return []

    def close(self, error: MainstemError) -> list[Answer]:
        del error  # nobody waits in this group
        self._dead = True
        self._deadlines = Deadlines()
        self._holding.give_back()
        return []

    # --- members -------------------------------------------------------------------------------

    def _known(self, request: ConsumerHeartbeat) -> ConsumerMember | None:
        """Whom the heartbeat speaks for; None: the group has to make room for it. Changes nothing."""
        joins = request.member_epoch == JOIN_EPOCH
        known_as = None if request.instance_id is None else self._static.get(request.instance_id)
        if known_as is not None and known_as != request.member_id:
            if not joins:
                raise FencedInstanceId(f"{request.instance_id!r} is now member {known_as}")
            old = self._members[known_as]
            if old.epoch != STATIC_LEAVE_EPOCH or request.member_id in self._members:
                raise UnreleasedInstanceId(f"{request.instance_id!r} is member {known_as}")
            return old
        member = self._members.get(request.member_id)
        if member is None:
            if not joins:
                raise UnknownMember(request.member_id)
            if len(self._members) >= self._limits.max_members:
                raise GroupFull(f"{self.group_id} has {len(self._members)} members")
            return None
        member.check_instance(request.instance_id)
        if not _starts_over(member, request):
            member.check_epoch(request)
        return member

    def _check_room(
        self,
        known: ConsumerMember | None,
        request: ConsumerHeartbeat,
        tried: TriedPattern | None,
        topics: Topics,
    ) -> ConsumerHeartbeat:
        """What of the heartbeat there is room for: all that it wants, or it is refused and changes nothing.

        Who is in and wants nothing new is never refused, as clients give up then: where there is no room for
        longer names and addresses, the member goes by the old ones.
        """
        member_id = request.member_id or request.new_member_id
        member = known or ConsumerMember(member_id)
        old = None if known is None else known.wish
        wanted = self._subscriptions.more_for(old, member.wish_after(request), tried, topics)
        wanted += text_bytes(member_id) - text_bytes(member.member_id)  # of a static member that is back
        said = member.more_for(request)
        if known is None:
            wanted += member.size() + said
        self._holding.check_subscription(self.group_id, wanted, self._limits.max_group_bytes)
        if known is None or self._holding.fits(wanted + said, self._limits.max_group_bytes):
            return request
        return replace(request, rack_id=None, client_id=known.client_id, client_host=known.client_host)

    def _enter(self, known: ConsumerMember | None, request: ConsumerHeartbeat) -> ConsumerMember:
        if known is None:
            return ConsumerMember(request.member_id or request.new_member_id)
        if known.member_id != request.member_id:
            return self._take_over(known, request.member_id or request.new_member_id)
        if _starts_over(known, request):
            self._hold(known, NOTHING, NOTHING)
            known.epoch = known.previous_epoch = 0
            known.progress = Progress.DONE
        return known

    def _take_over(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back: it gets what its former self had, as that one said it would go."""
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self._forget(old.member_id)
        self._target[member_id] = self._target.pop(old.member_id, NOTHING)
        for partition in member.holds():
            self._owners[partition] = member_id
        return member

    def _take_over_what_is_said(
        self,
        member: ConsumerMember,
        known: ConsumerMember | None,
        request: ConsumerHeartbeat,
        tried: TriedPattern | None,
    ) -> bool:
        """True if that calls for a new assignment."""
        size_before, wish_before = (0, None) if known is None else (known.size(), known.wish)
        changed = member.update(request)
        self._members_size += member.size() - size_before
        if member.wish is not wish_before:
            member.wish = self._subscriptions.keep(member.wish, tried)
            if wish_before is not None:
                self._subscriptions.drop(wish_before)
        return changed or known is None

    def _count(self) -> None:
        """What members hold is not only what they want: they may take their time to give it up."""
        owned = OWNED_BYTES * len(self._owners)
        self._holding.hold(self._members_size + self._subscriptions.held + owned)

    def _leave(self, request: ConsumerHeartbeat, now_ms: int) -> HeartbeatResult:
        member = self._members.get(request.member_id)
        if request.instance_id is not None:
            owner = self._static.get(request.instance_id)
            if owner is not None and owner != request.member_id:
                raise FencedInstanceId(f"{request.instance_id!r} is now member {owner}")
        if member is None:
            raise UnknownMember(request.member_id)
        member.check_instance(request.instance_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            self._hold(member, member.assigned, NOTHING)
            member.progress = Progress.DONE
            member.epoch = member.previous_epoch = STATIC_LEAVE_EPOCH
            self._deadlines.clear((REVOCATION, member.member_id))
            self._count()
        else:
            self._remove(member.member_id, now_ms)
        return self._result(request.member_id, request.member_epoch, None)

    def _remove(self, member_id: str, now_ms: int) -> None:
        member = self._members[member_id]
        self._hold(member, NOTHING, NOTHING)
        self._forget(member_id)
        self._target.pop(member_id, None)
        if member.instance_id is not None:
            del self._static[member.instance_id]
        self._members_size -= member.size()
        self._subscriptions.drop(member.wish)
        self._count()
        self.epoch += 1
        self._someone_left = True
        if not self._members:
            self.empty_since_ms = now_ms

    def _forget(self, member_id: str) -> None:
        del self._members[member_id]
        self._deadlines.clear((SESSION, member_id))
        self._deadlines.clear((REVOCATION, member_id))

    def _check_member_epoch(self, member_id: str, epoch: int, in_txn: bool) -> None:
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMember(member_id)
        if epoch != member.epoch:
            # Transactional clients know generations only.
            wrong = IllegalGeneration if in_txn else StaleMemberEpoch
            raise wrong(f"{epoch}, the member is at {member.epoch}")

    # --- target and way ------------------------------------------------------------------------

    def _refresh(self, changed: bool, topics: Topics, now_ms: int) -> None:
        """Raise the epoch and make a new target if members, wishes or topics changed."""
        members = self._members.values()
        if self._subscriptions.refresh(topics, now_ms) or changed:
            self.epoch += 1
        if self.epoch == self.assignment_epoch:
            return
        if changed or self._someone_left:
            votes = Counter(member.assignor for member in members if member.assignor is not None)
            default = self._limits.assignors[0]
            self._assignor = min(votes, key=lambda name: (-votes[name], name), default=default)
            self._someone_left = False
        readers = [
            Reader(member.member_id, member.instance_id, self._subscriptions.topic_ids_of(member.wish))
            for member in members
        ]
        self._target = ASSIGNORS[self._assignor](
            readers, self._subscriptions.partition_counts(), self._target
        )
        self.assignment_epoch = self.epoch

    def _walk(self, member: ConsumerMember, owned: frozenset[Partition] | None, now_ms: int) -> None:
        if member.is_reconciled(self.assignment_epoch):
            return
        before = (member.progress, member.epoch)
        held = member.holds()
        target = self._target.get(member.member_id, NOTHING)
        member.reconcile(
            self.assignment_epoch, target, owned, lambda partition: partition not in self._owners
        )
        self._own(member, held)
        key = (REVOCATION, member.member_id)
        if member.progress is not Progress.REVOKING:
            self._deadlines.clear(key)
        elif before != (Progress.REVOKING, member.epoch):
            self._deadlines.set(key, now_ms + member.rebalance_timeout_ms)

    def _hold(
        self, member: ConsumerMember, assigned: frozenset[Partition], revoking: frozenset[Partition]
    ) -> None:
        held = member.holds()
        member.assigned, member.revoking = assigned, revoking
        self._own(member, held)

    def _own(self, member: ConsumerMember, held_before: frozenset[Partition]) -> None:
        holds = member.holds()
        for partition in held_before - holds:
            del self._owners[partition]
        for partition in holds - held_before:
            self._owners[partition] = member.member_id
        self._most_owned = max(self._most_owned, len(self._owners))
        if 2 * len(self._owners) < self._most_owned:
            self._owners = dict(self._owners)  # one that things were taken from keeps their places
            self._most_owned = len(self._owners)

    def _result(self, member_id: str, epoch: int, assignment: frozenset[Partition] | None) -> HeartbeatResult:
        return HeartbeatResult(member_id, epoch, self._limits.heartbeat_interval_ms, assignment)


def _starts_over(member: ConsumerMember, request: ConsumerHeartbeat) -> bool:
    """It gave everything up before it joins again, as it must when it was fenced."""
    return request.member_epoch == JOIN_EPOCH and member.previous_epoch != JOIN_EPOCH


def check_heartbeat(request: ConsumerHeartbeat) -> None:
    """What a heartbeat must say, whatever the group."""
    if request.instance_id == "" or request.rack_id == "":
        raise InvalidRequest("an instance or rack id, where given, is not empty")
    if request.member_epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequest(f"member epoch {request.member_epoch}")
    if request.member_epoch != JOIN_EPOCH and not request.member_id:
        raise InvalidRequest("only a member that joins may lack an id")
    if request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidRequest("only a static member can say that it will be back")
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms is None:
            raise InvalidRequest("a member that joins names its rebalance timeout")
        if request.owned is None or request.owned:
            raise InvalidRequest("a member that joins owns nothing, and says so")
        if request.topic_names is None and request.topic_regex is None:
            raise InvalidRequest("a member that joins names its topics or a pattern")
