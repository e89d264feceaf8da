"""The door to share groups: lend records to members, take what they say of them, and keep the time.

What a member says is in memory at once and on disk before it is told so. What it was lent is in memory only:
after a restart all that is not done with is lent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import Enum
from itertools import groupby
from typing import NamedTuple

from mainstem.broker.partition import Partition
from mainstem.broker.reading import Reading
from mainstem.broker.shares.book import ShareBook
from mainstem.broker.shares.deltas import (
    GroupConfigured,
    ShareDelta,
    SharesForgotten,
    SharesSettled,
    ShareStarted,
)
from mainstem.broker.shares.lanes import ShareLane
from mainstem.broker.shares.reading import Wanted, read_lent, split, visible
from mainstem.broker.shares.sessions import ShareSessions
from mainstem.broker.shares.settings import ShareSettings, age_ms
from mainstem.broker.store import Section, Store
from mainstem.kernel.subs.leased_lane import NOTHING, Lent, Settled
from mainstem.model.errors import DiskFull, GroupNotFound, InvalidRecordState, InvalidRequest, MainstemError
from mainstem.model.ports import Clock

EVERYTHING = 2**62
BYTES_PER_RANGE = 24


class Verdict(Enum):
    DONE = 0  # never again
    AGAIN = 1  # to whoever is next
    KEEP = 2  # needs more time


class Acknowledgement(NamedTuple):
    """Of offsets from `first` to below `stop`: one verdict each, or one for all."""

    first: int
    stop: int
    verdicts: Sequence[Verdict]

    def runs(self) -> Iterable[tuple[int, int, Verdict]]:
        if len(self.verdicts) == 1:
            yield self.first, self.stop, self.verdicts[0]
            return
        at = self.first
        for verdict, some in groupby(self.verdicts):
            stop = at + sum(1 for _ in some)
            yield at, stop, verdict
            at = stop


class Delivered(NamedTuple):
    partition: Partition
    data: bytes
    lent: list[Lent]
    error: MainstemError | None = None


class Shares:
    def __init__(self, book: ShareBook, store: Store, reading: Reading, clock: Clock) -> None:
        self._book = book
        self._store = store
        self._reading = reading
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0  # when it fires
        self.sessions = ShareSessions()
        book.forget_gone()

    def settings(self, group: str) -> ShareSettings:
        return self._book.settings(group)

    def check(self, group: str) -> None:
        """Raises if there is no such share group."""
        self._of(group)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # --- lend --------------------------------------------------------------------------------------

    async def fetch(
        self, group: str, member: str, partitions: Sequence[Partition], wanted: Wanted
    ) -> list[Delivered]:
        """Records of these partitions, in this order, as soon as there are any."""
        woken = asyncio.Event()
        failed: list[Delivered] = []
        lanes: list[tuple[ShareLane, Partition]] = []
        for partition in partitions:
            try:
                lanes.append((await self._lane(group, partition), partition))
            except MainstemError as error:
                failed.append(Delivered(partition, b"", [], error))
        for lane, partition in lanes:
            lane.waiters.add(woken.set)
            partition.wait(woken.set)
        until = self._loop.time() + wanted.max_wait_ms / 1000
        try:
            while True:
                woken.clear()
                found = failed + await self._deliver(lanes, member, wanted)
                if found or self._loop.time() >= until:
                    return found
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), until - self._loop.time())
        finally:
            for lane, partition in lanes:
                lane.waiters.discard(woken.set)
                partition.stop_waiting(woken.set)
            self._arm()

    async def _lane(self, group: str, partition: Partition) -> ShareLane:
        lane = self._of(group).get(partition.id)
        if lane is None:
            offset = await self._first_offset(self.settings(group), partition)
            # Another member may have come first, or the group be gone, while that was looked up.
            lane = self._of(group).get(partition.id)
        if lane is None:
            self._journal(ShareStarted(group, partition.id, offset))
            lane = self._of(group)[partition.id]
        return lane

    def _of(self, group: str) -> dict[int, ShareLane]:
        lanes = self._book.groups.get(group)
        if lanes is None:
            raise GroupNotFound(f"Group {group} is not a share group.")
        return lanes

    async def _first_offset(self, settings: ShareSettings, partition: Partition) -> int:
        end = partition.last_stable_offset() if settings.committed else partition.high_watermark
        if settings.reset == "earliest":
            return partition.log_start
        age = age_ms(settings.reset)
        if age is None:
            return end
        since_ms = self._clock.now_ms() - age
        at: tuple[int, int] | None = await self._store.in_reader(
            self._reading.offset_for_time, partition, since_ms, end
        )
        return end if at is None else at[0]

    async def _deliver(
        self, lanes: Sequence[tuple[ShareLane, Partition]], member: str, wanted: Wanted
    ) -> list[Delivered]:
        records, room = wanted.max_records, wanted.max_bytes
        found: list[Delivered] = []
        for lane, partition in lanes:
            if records <= 0 or room <= 0:
                break
            left = wanted._replace(max_records=records, max_bytes=room)
            try:
                one = await self._deliver_one(lane, partition, member, left)
            except (MainstemError, OSError) as error:
                refused = error if isinstance(error, MainstemError) else MainstemError(str(error))
                found.append(Delivered(partition, b"", [], refused))
                continue
            if one is not None:
                found.append(one)
                records -= sum(lent.stop - lent.first for lent in one.lent)
                room -= len(one.data)
        return found

    async def _deliver_one(
        self, lane: ShareLane, partition: Partition, member: str, wanted: Wanted
    ) -> Delivered | None:
        settings = self.settings(lane.group)
        while True:
            upto = partition.last_stable_offset() if settings.committed else partition.high_watermark
            lane.trim(partition.log_start)
            lane.grow(upto)
            deadline_ms = self._clock.monotonic_ms() + settings.lock_ms
            count = min(wanted.max_records, settings.max_locks - lane.in_flight)
            lent = lane.lend(member, count, deadline_ms)
            if not lent:
                return None
            try:
                found = await self._store.in_reader(
                    read_lent, self._reading, partition.id, lent, wanted.max_bytes, upto
                )
            except BaseException:
                self._undo(lane, member, lent, 0)
                raise
            # The lane may reach further than this reader may see, if the group's configs were changed.
            stop = min(found.upto, upto)
            self._undo(lane, member, lent, stop)
            inside = [one._replace(stop=min(one.stop, stop)) for one in lent if one.first < stop]
            if not inside:
                return None
            shown = visible(partition, found.pieces, settings.committed)
            seen, empty = split(inside, shown)
            if found.empty_upto > stop:
                more = lane.lend_on(member, stop, min(found.empty_upto, upto), deadline_ms)
                empty += [(one.first, one.stop) for one in more]
            self._skip(lane, member, empty)
            if seen:
                if not wanted.strict and seen[-1].stop < shown[-1][1]:
                    # The rest of the last batch is sent anyway.
                    room = settings.max_locks - lane.in_flight
                    stop = min(shown[-1][1], seen[-1].stop + room, upto)
                    seen += lane.lend_on(member, seen[-1].stop, stop, deadline_ms)
                return Delivered(partition, found.data, seen)

    def _undo(self, lane: ShareLane, member: str, lent: Sequence[Lent], upto: int) -> None:
        if lent[-1].stop > upto:
            lane.undo(member, max(lent[0].first, upto), lent[-1].stop)
            lane.wake()

    def _skip(self, lane: ShareLane, member: str, empty: Iterable[tuple[int, int]]) -> None:
        """There is no record for anyone at these offsets."""
        settled = [lane.finish(member, first, stop) for first, stop in empty]
        with suppress(DiskFull):  # it can be found out again
            self._settle(lane.group, [(lane.partition_id, one) for one in settled])

    # --- take back ---------------------------------------------------------------------------------

    def acknowledge(
        self, group: str, member: str, partition: Partition, acks: Sequence[Acknowledgement]
    ) -> asyncio.Future[None] | None:
        """All of it or, if anything in it is wrong, nothing. On disk once the future is done."""
        lane = self._book.groups.get(group, {}).get(partition.id)
        if lane is None:
            raise InvalidRecordState(f"{partition} was not read by {group}")
        lane.trim(partition.log_start)
        before = -1
        ranges = 0
        for first, stop, verdicts in acks:
            if first < before or first >= stop or len(verdicts) not in (1, stop - first):
                raise InvalidRequest(f"acknowledgements of {first} to {stop - 1} make no sense here")
            if not lane.holds(member, first, stop):
                raise InvalidRecordState(f"not all of {first} to {stop - 1} are with this member")
            before = stop
            ranges += len(verdicts)
        # Before anything is changed: on a full disk it is all as it was.
        self._store.log.check_room(BYTES_PER_RANGE * ranges, essential=True)
        settings = self.settings(group)
        settled = [
            self._judge(lane, member, run, settings) for acknowledged in acks for run in acknowledged.runs()
        ]
        self._arm()
        return self._settle(group, [(partition.id, one) for one in settled])

    def _judge(
        self, lane: ShareLane, member: str, run: tuple[int, int, Verdict], settings: ShareSettings
    ) -> Settled:
        first, stop, verdict = run
        match verdict:
            case Verdict.DONE:
                return lane.finish(member, first, stop)
            case Verdict.AGAIN:
                settled = lane.fail(member, first, stop, settings.delivery_limit)
                lane.wake()
                return settled
            case Verdict.KEEP:
                lane.renew(member, first, stop, self._clock.monotonic_ms() + settings.lock_ms)
        return NOTHING

    def release(self, group: str, member: str) -> None:
        """A member closes its session: what it still has goes to others."""
        self.sessions.remove(group, member)
        limit = self.settings(group).delivery_limit
        settled = []
        for lane in self._book.groups.get(group, {}).values():
            one = lane.fail(member, 0, EVERYTHING, limit)
            if one != NOTHING:
                settled.append((lane.partition_id, one))
                lane.wake()
        with suppress(DiskFull):  # it comes back after a restart too, only the counts are lower
            self._settle(group, settled)

    def left(self, group: str, member: str) -> None:
        """A member leaves the group. It may still say what became of records, in the request that closes its
        session: that stays until then, or until its connection goes."""
        if self.sessions.owner(group, member) is None:
            self.release(group, member)

    def abandoned(self, group: str, member: str, owner: object) -> None:
        """The connection that opened the session is gone; the member may have another by now."""
        if self.sessions.owner(group, member) is owner:
            self.release(group, member)

    # --- time --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        next_ms = self._book.leases.next_due_ms()
        if next_ms is None or (self._timer is not None and self._timer_ms <= next_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = next_ms
        delay_ms = max(next_ms - self._clock.monotonic_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self._time_is_up)

    def _time_is_up(self) -> None:
        self._timer = None
        settled: dict[str, list[tuple[int, Settled]]] = {}
        for lease in self._book.leases.due(self._clock.monotonic_ms()):
            lane = lease.lane
            assert isinstance(lane, ShareLane)
            limit = self.settings(lane.group).delivery_limit
            one = lane.came_back([(lease.first, lease.stop)], limit)
            settled.setdefault(lane.group, []).append((lane.partition_id, one))
            lane.wake()
        for group, some in settled.items():
            with suppress(DiskFull):
                self._settle(group, some)
        self._arm()

    # --- the journal -------------------------------------------------------------------------------

    def _settle(self, group: str, settled: Sequence[tuple[int, Settled]]) -> asyncio.Future[None] | None:
        """Journal what lanes have changed already. None: nothing."""
        by_partition: dict[int, Settled] = {}
        for partition_id, one in settled:
            before = by_partition.get(partition_id, NOTHING)
            by_partition[partition_id] = Settled(before.done + one.done, before.failed + one.failed)
        changed = tuple((key, *one) for key, one in by_partition.items() if one != NOTHING)
        if not changed:
            return None
        return self._store.commit(Section.SHARES, SharesSettled(group, changed), essential=True)

    def _journal(self, delta: ShareDelta) -> asyncio.Future[None]:
        done = self._store.commit(Section.SHARES, delta, essential=True)
        self._book.apply(delta)
        return done

    # --- for administrators ------------------------------------------------------------------------

    def partition_ids(self, group: str) -> list[int]:
        """Those that the group has begun with."""
        return list(self._book.groups.get(group, ()))

    def start_offset(self, group: str, partition: Partition) -> tuple[int, int] | None:
        """From where on not all is done with, and how much is not; None if it has not begun."""
        lane = self._book.groups.get(group, {}).get(partition.id)
        if lane is None:
            return None
        lane.trim(partition.log_start)
        return lane.floor, lane.left + max(partition.high_watermark - lane.end, 0)

    async def alter(self, group: str, starts: Sequence[tuple[Partition, int]]) -> None:
        if starts:
            waits = [self._journal(ShareStarted(group, one.id, offset)) for one, offset in starts]
            await waits[-1]

    async def forget(self, group: str, partition_ids: Sequence[int]) -> None:
        if partition_ids:
            await self._journal(SharesForgotten(group, tuple(partition_ids)))

    def configs(self, group: str) -> dict[str, str]:
        return self._book.configs.get(group, {})

    def configured(self) -> list[str]:
        return sorted(self._book.configs)

    def configure(self, group: str, configs: dict[str, str]) -> asyncio.Future[None]:
        return self._journal(GroupConfigured(group, configs))
