"""Consumer groups: the shell around the pure machines, with their one timer and their place in the journal.

Time: deadlines must not jump with the wall clock, offsets are stamped with it, and retention compares both.
So groups live by the monotonic clock, set once, at the start, to what the wall clock said.

Offsets are journalled first and applied in the turn that finds them on disk: nobody reads an offset that a
power cut could take back. Members are in memory only.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from mainstem.broker.options import BrokerOptions
from mainstem.broker.shares.book import ShareBook
from mainstem.broker.shares.deltas import ShareDelta, ShareGroupGone, ShareGroupMade
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.groups.assignors import by_topic
from mainstem.kernel.groups.classic_messages import (
    Answer,
    ClassicLimits,
    ClassicState,
    ClassicView,
    JoinRequest,
    JoinResult,
    Leaver,
    LeaveResult,
    SyncRequest,
    SyncResult,
)
from mainstem.kernel.groups.consumer_messages import (
    ConsumerHeartbeat,
    ConsumerLimits,
    ConsumerView,
    HeartbeatResult,
    TopicInfo,
)
from mainstem.kernel.groups.offsets import (
    CommittedOffset,
    GroupDeleted,
    GroupOffsets,
    OffsetDelta,
    OffsetsCommitted,
    OffsetsDeleted,
    check_metadata,
)
from mainstem.kernel.groups.registry import GroupKind, Groups, ListedGroup
from mainstem.kernel.groups.share_messages import ShareHeartbeat, ShareLimits, ShareView
from mainstem.model.errors import CoordinatorClosing, InvalidGroupId, MainstemError
from mainstem.model.ports import Chance, Clock

__all__ = [
    "ClassicState",
    "ClassicView",
    "CommittedOffset",
    "ConsumerHeartbeat",
    "ConsumerView",
    "GroupCoordinator",
    "GroupKind",
    "HeartbeatResult",
    "JoinRequest",
    "JoinResult",
    "LeaveResult",
    "Leaver",
    "ListedGroup",
    "ShareHeartbeat",
    "ShareView",
    "SyncRequest",
    "SyncResult",
    "VisibleTopics",
    "by_topic",
]

MAX_ID_LENGTH = 4096  # of a group id: a name, not a store of data
# A client id is part of the ids given to its members, and those travel in every assignment.
MAX_PREFIX_LENGTH = 255
SWEEP_EVERY_MS = 600_000
_GROUPS_AT_ONCE = 200

_Request = TypeVar("_Request")
_Result = TypeVar("_Result", JoinResult, SyncResult)


class VisibleTopics:
    """The topics that one member may see, as consumer groups ask for them."""

    def __init__(self, topics: Topics, may_see: Callable[[str], bool]) -> None:
        self._topics = topics
        self._may_see = may_see

    @property
    def version(self) -> int:
        return self._topics.version

    def get(self, name: str) -> TopicInfo | None:
        topic = self._topics.by_name.get(name)
        return None if topic is None else TopicInfo(topic.id, len(topic.partitions))

    def names(self) -> Iterator[str]:
        return (
            name for name, topic in self._topics.by_name.items() if not topic.internal and self._may_see(name)
        )


class GroupCoordinator:
    """One per broker."""

    def __init__(
        self,
        store: Store,
        offsets: GroupOffsets,
        shares: ShareBook,
        clock: Clock,
        chance: Chance,
        options: BrokerOptions,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._shares = shares
        self._clock = clock
        self._chance = chance
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()
        self._groups = Groups(
            offsets,
            self.now_ms(),
            ClassicLimits(
                initial_delay_ms=options.group_initial_delay_ms,
                min_session_ms=options.group_min_session_ms,
                max_session_ms=options.group_max_session_ms,
                max_members=options.group_max_size,
            ),
            ConsumerLimits(
                session_timeout_ms=options.group_consumer_session_ms,
                heartbeat_interval_ms=options.group_consumer_heartbeat_ms,
                max_members=options.group_max_size,
                max_group_bytes=options.group_subscription_bytes,
                max_total_bytes=options.group_total_subscription_bytes,
                assignors=options.group_consumer_assignors,
            ),
            shares.groups.keys(),
        )
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # when it fires
        self._swept_ms = self.now_ms()
        self._closing = False

    def now_ms(self) -> int:
        return self._clock.monotonic_ms() + self._ahead_ms

    def new_member_id(self, prefix: str = "") -> str:
        number = str(uuid.UUID(bytes=self._chance.uuid()))
        return f"{prefix[:MAX_PREFIX_LENGTH]}-{number}" if prefix else number

    # --- classic members -------------------------------------------------------------------------

    async def join(self, group_id: str, request: JoinRequest) -> JoinResult:
        return await self._ask(self._groups.join, group_id, request, JoinResult)

    async def sync(self, group_id: str, request: SyncRequest) -> SyncResult:
        return await self._ask(self._groups.sync, group_id, request, SyncResult)

    async def _ask(
        self,
        ask: Callable[[str, object, _Request, int], list[Answer]],
        group_id: str,
        request: _Request,
        result_type: type[_Result],
    ) -> _Result:
        """The request's token is the future that it waits for. If its client hangs up the future is
        cancelled, and the answer that comes later goes nowhere."""
        self._check(group_id)
        waiting: asyncio.Future[object] = self._loop.create_future()
        self._deliver(ask(group_id, waiting, request, self.now_ms()))
        try:
            result = await waiting
        finally:
            del waiting  # its error knows this frame: a cycle, with the request in it
        assert isinstance(result, result_type)
        return result

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> None:
        self._check(group_id)
        try:
            self._groups.heartbeat(group_id, member_id, instance_id, generation, self.now_ms())
        finally:
            self._arm()

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[LeaveResult]:
        self._check(group_id)
        results, answers = self._groups.leave(group_id, leavers, self.now_ms())
        self._deliver(answers)
        return results

    # --- members of the consumer protocol --------------------------------------------------------

    def consumer_heartbeat(
        self, group_id: str, request: ConsumerHeartbeat, topics: VisibleTopics
    ) -> HeartbeatResult:
        self._check(group_id)
        try:
            return self._groups.consumer_heartbeat(group_id, request, topics, self.now_ms())
        finally:
            self._arm()

    # --- members of share groups -----------------------------------------------------------------

    def share_heartbeat(
        self, group_id: str, request: ShareHeartbeat, topics: VisibleTopics
    ) -> HeartbeatResult:
        """A group that gets its first member is a share group from then on."""
        self._check(group_id)
        settings = self._shares.settings(group_id)
        limits = ShareLimits(
            settings.session_ms,
            settings.heartbeat_ms,
            self._options.group_max_size,
            self._options.group_subscription_bytes,
        )
        try:
            result = self._groups.share_heartbeat(group_id, request, topics, self.now_ms(), limits)
        finally:
            self._arm()
        if group_id not in self._shares.groups:
            self._journal_share(ShareGroupMade(group_id))
        return result

    def _journal_share(self, delta: ShareDelta) -> asyncio.Future[None]:
        done = self._store.commit(Section.SHARES, delta, essential=True)
        self._shares.apply(delta)
        return done

    # --- offsets ---------------------------------------------------------------------------------

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        in_txn: bool = False,
    ) -> None:
        self._check(group_id)
        try:
            self._groups.check_commit(
                group_id, member_id, instance_id, generation, self.now_ms(), in_txn=in_txn
            )
        finally:
            self._arm()

    def check_metadata(self, metadata: str) -> None:
        check_metadata(metadata, self._options.offset_metadata_max_bytes)

    async def commit(self, group_id: str, offsets: Sequence[CommittedOffset]) -> None:
        """After `check_commit`. On disk, and visible, when this returns."""
        if offsets:
            await self._journal(OffsetsCommitted(group_id, offsets, self.is_consumer(group_id)))

    def is_consumer(self, group_id: str) -> bool | None:
        return self._groups.is_consumer(group_id)

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        self._groups.check_fetch(group_id, member_id, epoch)

    def committed(self, group_id: str, topic_id: bytes, partition: int) -> CommittedOffset | None:
        return self._offsets.get(group_id, topic_id, partition)

    def all_committed(self, group_id: str) -> Iterable[CommittedOffset]:
        return self._offsets.all(group_id)

    def is_unstable(self, group_id: str, topic_id: bytes, partition: int) -> bool:
        return self._offsets.unstable(group_id, topic_id, partition)

    def check_offsets_delete(self, group_id: str, topic_name: str | None = None) -> None:
        self._groups.check_offsets_delete(group_id, topic_name)

    async def delete_offsets(self, group_id: str, keys: Sequence[tuple[bytes, int]]) -> None:
        if keys:
            await self._journal(OffsetsDeleted(group_id, keys))

    def _journal(self, delta: OffsetDelta) -> asyncio.Future[None]:
        return self._store.commit(
            Section.OFFSETS, delta, essential=True, then=partial(self._offsets.apply, delta)
        )

    # --- admin -----------------------------------------------------------------------------------

    def kind(self, group_id: str) -> GroupKind:
        return self._groups.kind(group_id)

    def describe(self, group_id: str) -> ClassicView | ConsumerView | ShareView:
        return self._groups.describe(group_id)

    def ids(self) -> list[str]:
        """Of all groups, sorted. There may be very many: `listed` tells of one."""
        return self._groups.ids()

    def count(self) -> int:
        return self._groups.count()

    def listed(self, group_id: str) -> ListedGroup | None:
        return self._groups.listed(group_id)

    def check_empty(self, group_id: str) -> None:
        """Raises if the group has members, or is not there."""
        self._groups.check_delete(group_id)

    async def delete(self, group_id: str) -> None:
        self._groups.check_delete(group_id)
        self._deliver(self._groups.delete(group_id))
        if group_id in self._shares.groups:
            await self._journal_share(ShareGroupGone(group_id))
        else:
            await self._journal(GroupDeleted(group_id))

    # --- time ------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Heartbeats push deadlines back all the time; the timer may fire early and find nothing due."""
        next_ms = self._groups.next_deadline_ms()
        if next_ms is None or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = next_ms
        self._timer = self._loop.call_later(max(next_ms - self.now_ms(), 0) / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        self._deliver(self._groups.tick(self.now_ms()))

    async def tick(self) -> None:
        """Every ten minutes: forget groups that are long empty, and offsets that nobody came back for."""
        now_ms = self.now_ms()
        if self._closing or now_ms < self._swept_ms + SWEEP_EVERY_MS:
            return
        self._swept_ms = now_ms
        self._groups.sweep(now_ms)
        await self.expire_offsets()

    async def expire_offsets(self) -> None:
        """A few groups per turn: each is judged, and its delta submitted, in one turn of the loop."""
        group_ids = list(self._offsets.groups())
        for first in range(0, len(group_ids), _GROUPS_AT_ONCE):
            few = group_ids[first : first + _GROUPS_AT_ONCE]
            for delta in self._groups.expired(self.now_ms(), self._options.offsets_retention_ms, few):
                self._journal(delta)
            await asyncio.sleep(0)

    def close(self) -> None:
        """The broker stops: whoever waits is told to look for the coordinator again."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deliver(self._groups.close(CoordinatorClosing("the broker is stopping")))

    # --- small parts -----------------------------------------------------------------------------

    def _check(self, group_id: str) -> None:
        if self._closing:
            raise CoordinatorClosing("the broker is stopping")
        if len(group_id) > MAX_ID_LENGTH:
            raise InvalidGroupId(f"a group id of {len(group_id)} characters; {MAX_ID_LENGTH} are allowed")

    def _deliver(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            waiting = answer.token
            assert isinstance(waiting, asyncio.Future)
            if waiting.done():
                continue  # its client has hung up
            if isinstance(answer.result, MainstemError):
                # Where it was raised is of no use to the client, and would keep its request until collected.
                waiting.set_exception(answer.result.with_traceback(None))
            else:
                waiting.set_result(answer.result)
        if not self._closing:
            self._arm()
