"""All groups by id: the one door for the shell, which needs a single timer for all of them.

A group exists while it has members or committed offsets; a share group from its first member on until it is
deleted. Members live in a `ClassicGroup`, a `ConsumerGroup` or a `ShareGroup` in memory; offsets live in the
journaled `GroupOffsets`. What a request gets when there is no such group, or one of another kind, is decided
here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from mainstem.kernel.groups.classic import ClassicGroup
from mainstem.kernel.groups.classic_messages import (
    Answer,
    ClassicLimits,
    ClassicState,
    ClassicView,
    JoinRequest,
    Leaver,
    LeaveResult,
    SyncRequest,
)
from mainstem.kernel.groups.consumer import ConsumerGroup, check_heartbeat
from mainstem.kernel.groups.consumer_messages import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    ConsumerLimits,
    ConsumerState,
    ConsumerView,
    HeartbeatResult,
    Topics,
)
from mainstem.kernel.groups.deadlines import Deadlines
from mainstem.kernel.groups.offsets import GroupOffsets, OffsetsDeleted
from mainstem.kernel.groups.room import Room
from mainstem.kernel.groups.share import ShareGroup, check_share_heartbeat
from mainstem.kernel.groups.share_messages import ShareHeartbeat, ShareLimits, ShareState, ShareView
from mainstem.model.errors import (
    GroupNotFound,
    GroupSubscribedToTopic,
    InconsistentProtocol,
    InvalidGroupId,
    MainstemError,
    UnknownMember,
)

Answers: TypeAlias = list[Answer]  # spelled out here, because inside `Groups` a method is called `list`

# Groups without members are kept for a while, as in Kafka, but not more than this: a client that joins and
# leaves under ever new ids would fill the memory with them.
MOST_EMPTY = 1000


class GroupKind(Enum):
    """The value is the name that listings show."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    kind: GroupKind
    state: str
    protocol_type: str


class Groups:
    def __init__(
        self,
        offsets: GroupOffsets,
        now_ms: int,
        classic: ClassicLimits | None = None,
        consumer: ConsumerLimits | None = None,
        shares: Set[str] = frozenset(),
    ) -> None:
        """`shares`: the ids of the share groups that are in the journal, as they come and go."""
        self._offsets = offsets
        self._started_ms = now_ms
        self._classic_limits, self._consumer_limits = classic, consumer
        self._shares = shares
        self._room = Room((classic or ClassicLimits()).max_total_bytes)
        self._assigned_room = Room((consumer or ConsumerLimits()).max_total_bytes)  # of the newer kinds
        self._groups: dict[str, ClassicGroup | ConsumerGroup | ShareGroup] = {}
        self._deadlines: Deadlines[str] = Deadlines()
        self._empty: dict[str, None] = {}  # those of `_groups` without members, as they became empty
        self._emptied_ms: dict[str, int] = {}  # of groups that were swept and still have offsets

    # --- classic members -----------------------------------------------------------------------

    def join(self, group_id: str, token: object, request: JoinRequest, now_ms: int) -> Answers:
        try:
            group = self._classic_to_join(group_id, request, now_ms)
        except MainstemError as error:
            return [Answer(token, error)]
        answers = group.join(token, request, now_ms)
        if group.generation > 0 or not group.idle:  # a refused first join leaves no group behind
            self._put(group_id, group)
        return answers

    def sync(self, group_id: str, token: object, request: SyncRequest, now_ms: int) -> Answers:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return [Answer(token, UnknownMember(request.member_id))]
        answers = group.sync(token, request, now_ms)
        self._arm(group_id)
        return answers

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMember(member_id)
        group.heartbeat(member_id, instance_id, generation, now_ms)
        self._arm(group_id)

    def leave(
        self, group_id: str, leavers: Sequence[Leaver], now_ms: int
    ) -> tuple[list[LeaveResult], Answers]:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMember(group_id)
        results = group.leave(leavers, now_ms)
        self._settle(group_id)
        return results

    # --- members of the consumer protocol ------------------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, request: ConsumerHeartbeat, topics: Topics, now_ms: int
    ) -> HeartbeatResult:
        check_heartbeat(request)
        group = self._groups.get(group_id)
        if self._is_share(group_id):
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")
        if isinstance(group, ClassicGroup) and not group.idle:
            raise GroupNotFound(f"{group_id} is a classic group with members")
        if not isinstance(group, ConsumerGroup):
            if request.member_epoch != JOIN_EPOCH:
                # Not GroupNotFound: clients give up on it, while an unknown member joins again.
                raise UnknownMember(request.member_id)
            group = ConsumerGroup(_checked(group_id), now_ms, self._consumer_limits, self._assigned_room)
        result = group.heartbeat(request, topics, now_ms)
        self._put(group_id, group)
        return result

    # --- members of share groups ---------------------------------------------------------------

    def share_heartbeat(
        self, group_id: str, request: ShareHeartbeat, topics: Topics, now_ms: int, limits: ShareLimits
    ) -> HeartbeatResult:
        check_share_heartbeat(request)
        group = self._groups.get(group_id)
        if not isinstance(group, ShareGroup):
            if group is not None or group_id in self._offsets:
                raise GroupNotFound(f"Group {group_id} is not a share group.")
            if request.member_epoch != JOIN_EPOCH:
                raise UnknownMember(request.member_id)
            group = ShareGroup(_checked(group_id), now_ms, self._assigned_room)
        result = group.heartbeat(request, topics, now_ms, limits)
        self._put(group_id, group)
        return result

    def _is_share(self, group_id: str) -> bool:
        return group_id in self._shares or isinstance(self._groups.get(group_id), ShareGroup)

    # --- offsets -------------------------------------------------------------------------------

    def is_consumer(self, group_id: str) -> bool | None:
        """Whether it has the newer protocol, for the journal; None if it has no members to tell."""
        group = self._groups.get(group_id)
        return None if group is None else isinstance(group, ConsumerGroup)

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now_ms: int,
        in_txn: bool = False,
    ) -> None:
        """`generation` is the member epoch in a consumer group; below zero: not a member."""
        group = self._groups.get(_checked(group_id))
        if group is not None:
            group.check_commit(member_id, instance_id, generation, now_ms, in_txn)
        elif group_id in self._shares:
            raise GroupNotFound(f"Group {group_id} is not a consumer group.")
        elif generation >= 0:
            raise UnknownMember(member_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            group.check_fetch(member_id, epoch)

    def check_offsets_delete(self, group_id: str, topic_name: str | None = None) -> None:
        """Without a topic: may any be deleted? For classic groups the front knows the subscriptions."""
        group = self._groups.get(group_id)
        if group is None:
            self._check_exists(group_id)
            if group_id in self._shares:
                raise GroupNotFound(f"Group {group_id} is not a consumer group.")
            return
        group.check_offsets_delete()
        if topic_name is not None and isinstance(group, ConsumerGroup) and group.reads(topic_name):
            raise GroupSubscribedToTopic(topic_name)

    def expired(
        self, now_ms: int, retention_ms: int, group_ids: Iterable[str] | None = None
    ) -> Iterator[OffsetsDeleted]:
        """Deltas for what nobody wants any more. The groups may be many: ask about a few at a time."""
        for group_id in tuple(self._offsets.groups()) if group_ids is None else group_ids:
            group = self._groups.get(group_id)
            if group is None:
                # When its last member went before a restart is unknown: count from the start.
                empty_since_ms: int | None = self._emptied_ms.get(group_id, self._started_ms)
            else:
                empty_since_ms = group.empty_since_ms
                if empty_since_ms is None:
                    continue
            keys = self._offsets.expired(group_id, now_ms, retention_ms, empty_since_ms)
            if keys:
                yield OffsetsDeleted(group_id, keys, now_ms - retention_ms)

    # --- admin ---------------------------------------------------------------------------------

    def kind(self, group_id: str) -> GroupKind:
        group = self._groups.get(group_id)
        if group is None:
            self._check_exists(group_id)
        if self._is_share(group_id):
            return GroupKind.SHARE
        consumer = self._offsets.is_consumer(group_id) if group is None else isinstance(group, ConsumerGroup)
        return GroupKind.CONSUMER if consumer else GroupKind.CLASSIC

    def describe(self, group_id: str) -> ClassicView | ConsumerView | ShareView:
        group = self._groups.get(group_id)
        if group is not None:
            return group.describe()
        self._check_exists(group_id)
        if group_id in self._shares:
            return ShareGroup(group_id, 0).describe()
        if self._offsets.is_consumer(group_id):
            return ConsumerGroup(group_id, 0, self._consumer_limits).describe()
        return ClassicView(group_id, ClassicState.EMPTY, "", "", 0, None, ())

    def ids(self) -> list[str]:
        """Of all groups, sorted."""
        return sorted(self._groups.keys() | self._offsets.groups() | self._shares)

    def count(self) -> int:
        return len(self._groups.keys() | self._offsets.groups() | self._shares)

    def listed(self, group_id: str) -> ListedGroup | None:
        """How it is listed; None if there is no such group any more."""
        group = self._groups.get(group_id)
        if group is not None:
            return ListedGroup(group_id, self.kind(group_id), group.state.value, _protocol_type(group))
        if group_id in self._shares:
            return ListedGroup(group_id, GroupKind.SHARE, ShareState.EMPTY.value, GroupKind.SHARE.value)
        if self._offsets.is_consumer(group_id):
            return ListedGroup(
                group_id, GroupKind.CONSUMER, ConsumerState.EMPTY.value, GroupKind.CONSUMER.value
            )
        if group_id in self._offsets:
            return ListedGroup(group_id, GroupKind.CLASSIC, ClassicState.EMPTY.value, "")
        return None

    def list(self, states: Collection[str] = (), kinds: Collection[str] = ()) -> list[ListedGroup]:
        """Sorted by id; filters by the names that listings show, in any case; an empty one lets all pass."""
        wanted_states = {state.lower() for state in states}
        wanted_kinds = {kind.lower() for kind in kinds}
        return [
            one
            for one in map(self.listed, self.ids())
            if one is not None
            and (not wanted_states or one.state.lower() in wanted_states)
            and (not wanted_kinds or one.kind.value in wanted_kinds)
        ]

    def check_delete(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is None:
            self._check_exists(group_id)
        else:
            group.check_delete()

    def delete(self, group_id: str) -> Answers:
        """After `check_delete`; journal `GroupDeleted` for the offsets."""
        answers = self._remove(group_id)
        self._emptied_ms.pop(group_id, None)
        return answers

    # --- time ----------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_ms()

    def tick(self, now_ms: int) -> Answers:
        answers: Answers = []
        for group_id in self._deadlines.due(now_ms):
            answers += self._groups[group_id].tick(now_ms)
            self._settle(group_id)
        return answers

    def sweep(self, now_ms: int, keep_ms: int = 600_000) -> None:
        """Forget groups that have been empty for a while; their offsets and their age stay."""
        for group_id, group in list(self._groups.items()):
            empty_since_ms = group.empty_since_ms
            if group.idle and empty_since_ms is not None and empty_since_ms + keep_ms <= now_ms:
                self._forget(group_id)
        for group_id in [one for one in self._emptied_ms if one not in self._offsets]:
            del self._emptied_ms[group_id]

    def close(self, error: MainstemError) -> Answers:
        """The broker stops: everyone who waits gets `error`."""
        answers = [answer for group in self._groups.values() for answer in group.close(error)]
        self._groups.clear()
        self._empty.clear()
        self._deadlines = Deadlines()
        return answers

    # --- small parts ---------------------------------------------------------------------------

    def _classic_to_join(self, group_id: str, request: JoinRequest, now_ms: int) -> ClassicGroup:
        group = self._groups.get(_checked(group_id))
        if isinstance(group, ClassicGroup):
            return group
        if self._is_share(group_id):
            raise InconsistentProtocol(f"{group_id} is a share group")
        if group is not None and not group.idle:
            raise InconsistentProtocol(f"{group_id} has members of the consumer protocol")
        if request.member_id:
            raise UnknownMember(request.member_id)
        return ClassicGroup(group_id, now_ms, self._classic_limits, self._room)

    def _put(self, group_id: str, group: ClassicGroup | ConsumerGroup | ShareGroup) -> None:
        """After a member came or went. The group may take the place of an empty one of another kind."""
        if self._groups.get(group_id) is not group:
            self._remove(group_id)
            self._groups[group_id] = group
        self._settle(group_id)

    def _settle(self, group_id: str) -> None:
        """After members may have gone."""
        self._arm(group_id)
        if not self._groups[group_id].idle:
            self._empty.pop(group_id, None)
            return
        self._empty[group_id] = None
        if len(self._empty) > MOST_EMPTY:
            self._forget(next(iter(self._empty)))

    def _arm(self, group_id: str) -> None:
        """After whatever may bring a deadline forward. One that only moves later need not be known: the
        timer then fires once too early, finds nothing due and is armed again."""
        at_ms = self._groups[group_id].next_deadline_ms()
        if at_ms is None:
            self._deadlines.clear(group_id)
        else:
            self._deadlines.set(group_id, at_ms)

    def _forget(self, group_id: str) -> None:
        """A group without members; its offsets and its age stay."""
        empty_since_ms = self._groups[group_id].empty_since_ms
        self._remove(group_id)
        if empty_since_ms is not None and group_id in self._offsets:
            self._emptied_ms[group_id] = empty_since_ms

    def _remove(self, group_id: str) -> Answers:
        self._deadlines.clear(group_id)
        self._empty.pop(group_id, None)
        group = self._groups.pop(group_id, None)
        return [] if group is None else group.close(GroupNotFound(group_id))

    def _check_exists(self, group_id: str) -> None:
        known = group_id in self._groups or group_id in self._offsets or group_id in self._shares
        if not known:
            raise GroupNotFound(group_id)


def _checked(group_id: str) -> str:
    if not group_id:
        raise InvalidGroupId("a group id is not empty")
    return group_id


def _protocol_type(group: ClassicGroup | ConsumerGroup | ShareGroup) -> str:
    if isinstance(group, ClassicGroup):
        return group.protocol_type
    kind = GroupKind.SHARE if isinstance(group, ShareGroup) else GroupKind.CONSUMER
    return kind.value
