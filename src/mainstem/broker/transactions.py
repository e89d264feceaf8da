"""Transactions: the coordinator's decisions, carried out on the journal.

Ending is one all-or-none frame: the coordinator's delta, a marker for every partition and the end of the
staged group offsets. There is no moment at which a crash leaves a transaction half ended.

A decision is made and handed to the journal within one turn of the loop, and what follows from its being on
disk happens in the journal's own call: a client that hangs up in between leaves nothing half done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from mainstem.broker.partition import Partition
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.groups.offsets import CommittedOffset, GroupOffsets, TxnOffsetsEnded, TxnOffsetsStaged
from mainstem.kernel.groups.patterns import Pattern
from mainstem.kernel.log.entries import BatchEntry, Entry
from mainstem.kernel.log.journal import NewPlace
from mainstem.kernel.txn.coordinator import TransactionCoordinator
from mainstem.kernel.txn.decisions import Added, Answered, Ending, Initialised, TxnInfo
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.kernel.txn.table import TxnState
from mainstem.model.batch import BatchHeader
from mainstem.model.errors import ConcurrentTransactions, DiskFull, OutOfOrderSequence
from mainstem.model.logs import Seldom, get_log
from mainstem.model.ports import Clock
from mainstem.model.records import control_batch

__all__ = ["CommittedOffset", "Transactions", "TxnInfo", "TxnState"]

events = get_log(__name__)

# One coordinator, one reign.
COORDINATOR_EPOCH = 0
# InitProducerId aborts what is open and asks again; more often than this only if others keep opening it.
_TRIES = 20
# Ids looked at, and timed-out transactions ended, in one turn of the loop.
_AT_ONCE = 200
_PARTITIONS_AT_ONCE = 1000
_SWEEP_EVERY_MS = 600_000  # of ids and producers: all of them are looked at
_FULL_DISK_MS = 10_000  # until the next one where nothing could be forgotten


class Transactions:
    def __init__(
        self,
        store: Store,
        coordinator: TransactionCoordinator,
        topics: Topics,
        offsets: GroupOffsets,
        clock: Clock,
        producer_expiry_ms: int,
        is_consumer: Callable[[str], bool | None],
    ) -> None:
        """`is_consumer`: whether a group has the newer protocol, if that can be told."""
        self._is_consumer = is_consumer
        self._seldom = Seldom(events)
        self.coordinator = coordinator
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clock = clock
        self._producer_expiry_ms = producer_expiry_ms
        self._swept_ms = clock.monotonic_ms()

    # --- requests --------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, producer_id: int, epoch: int
    ) -> tuple[int, int]:
        """(producer id, epoch). An open transaction of the same id is aborted first."""
        for _ in range(_TRIES):
            decision = self.coordinator.init_producer_id(
                transactional_id, timeout_ms, producer_id, epoch, self._clock.now_ms()
            )
            if isinstance(decision, Initialised):
                await self._submit(decision)
                return decision.producer_id, decision.epoch
            await self._end(decision)
        raise ConcurrentTransactions(f"transactional id {transactional_id!r} has a change under way")

    async def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[int]
    ) -> None:
        now_ms = self._clock.now_ms()
        await self._submit(
            self.coordinator.add_partitions(transactional_id, producer_id, epoch, partitions, now_ms)
        )

    async def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> None:
        now_ms = self._clock.now_ms()
        await self._submit(self.coordinator.add_offsets(transactional_id, producer_id, epoch, group, now_ms))

    async def commit_offsets(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        group: str,
        offsets: Sequence[CommittedOffset],
        *,
        adds_group: bool,
        abortable_known: bool,
    ) -> None:
        """Stage group offsets in the transaction. `adds_group`: the client does not announce groups."""
        if adds_group:
            now_ms = self._clock.now_ms()
            # Not waited for: the staged offsets follow it in the journal.
            self._submit(self.coordinator.ensure_group(transactional_id, producer_id, epoch, group, now_ms))
        else:
            self.coordinator.check_offset_commit(transactional_id, producer_id, epoch, group, abortable_known)
        staged = TxnOffsetsStaged(producer_id, group, list(offsets), self._is_consumer(group))
        await self._store.commit(
            Section.OFFSETS, staged, essential=True, then=partial(self._offsets.apply, staged)
        )

    async def end_txn(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, *, bump: bool
    ) -> tuple[int, int]:
        """Commit or abort; the identity that the producer has from now on."""
        decision = self.coordinator.end_txn(
            transactional_id, producer_id, epoch, commit, bump, self._clock.now_ms()
        )
        if isinstance(decision, Answered):
            return decision.producer_id, decision.epoch
        await self._end(decision)
        return decision.next_producer_id, decision.next_epoch

    def list_transactions(
        self, states: Collection[TxnState], producer_ids: Collection[int], longer_than_ms: int, pattern: str
    ) -> list[TxnInfo]:
        """An empty filter admits all; `pattern` is a regular expression for the whole transactional id."""
        wanted = Pattern(pattern) if pattern else None
        listed = self.coordinator.list_transactions(
            states, producer_ids, longer_than_ms, self._clock.now_ms()
        )
        return [info for info in listed if wanted is None or wanted.matches(info.transactional_id)]

    # --- ending ----------------------------------------------------------------------------------

    def _end(self, ending: Ending) -> asyncio.Future[None]:
        """One frame with everything that ends the transaction; the future is done once it is on disk."""
        now_ms = self._clock.now_ms()
        deltas: list[tuple[Section, object]] = [(Section.TRANSACTIONS, delta) for delta in ending.deltas]
        ended_offsets = TxnOffsetsEnded(ending.producer_id, ending.commit)
        if ending.groups:
            deltas.append((Section.OFFSETS, ended_offsets))
        named = (self._topics.partitions.get(number) for number in ending.partitions)
        partitions = [partition for partition in named if partition is not None]
        markers = [self._marker(partition, ending, now_ms) for partition in partitions]

        def on_disk() -> None:
            if ending.groups:
                self._offsets.apply(ended_offsets)
            self.coordinator.synced(ending)

        done = self._store.commit_together(deltas, markers, essential=True, then=on_disk)
        for partition in partitions:
            self._give_marker(partition, ending, now_ms)
        self.coordinator.submitted(ending)
        return done

    def _marker(self, partition: Partition, ending: Ending, now_ms: int) -> Entry:
        offset = partition.next_offset
        batch = control_batch(
            offset,
            ending.producer_id,
            ending.marker_epoch,
            commit=ending.commit,
            timestamp_ms=now_ms,
            coordinator_epoch=COORDINATOR_EPOCH,
            leader_epoch=partition.leader_epoch,
        )
        return BatchEntry(partition.id, batch, NewPlace(partition.id, offset, offset, now_ms, len(batch)))

    def _give_marker(self, partition: Partition, ending: Ending, now_ms: int) -> None:
        if partition.producers is None:
            partition.producers = PartitionProducers(self._producer_expiry_ms)
        partition.producers.ended(
            ending.producer_id, ending.marker_epoch, ending.commit, partition.next_offset, now_ms
        )
        partition.next_offset += 1

    # --- writing in a transaction ----------------------------------------------------------------

    def join(
        self,
        transactional_id: str,
        partition: Partition,
        header: BatchHeader,
        *,
        version_2: bool,
        known: bool,
    ) -> None:
        """Before a producer's first batch in a partition: its deltas precede the batch in the journal."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if not version_2:
            self.coordinator.check_produce(transactional_id, producer_id, epoch, partition.id, known)
            return
        unknown = partition.producers is None or partition.producers.epoch_of(producer_id) < 0
        if unknown and header.base_sequence != 0:
            # Such a client never goes on where its state is gone, so what came before is still on its way.
            raise OutOfOrderSequence(
                f"producer {producer_id} is not known here and starts at {header.base_sequence}, not 0"
            )
        now_ms = self._clock.now_ms()
        self._submit(
            self.coordinator.ensure_partition(transactional_id, producer_id, epoch, partition.id, now_ms)
        )

    # --- time ------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Abort what is open beyond its timeout; every ten minutes forget what is idle."""
        now_ms = self._clock.now_ms()
        try:
            # All that is decided is submitted in this turn: a client may end a transaction in the next.
            for ending in self.coordinator.expired(now_ms)[:_AT_ONCE]:
                events.event("transaction timed out", transactional_id=ending.transactional_id)
                self._end(ending)
        except DiskFull as error:
            self._seldom.warning("transactions that timed out have to wait", why=str(error))
        if self._clock.monotonic_ms() >= self._swept_ms + _SWEEP_EVERY_MS:
            self._swept_ms = self._clock.monotonic_ms()
            await self._forget_idle()
            await self._expire_producers(now_ms)

    async def _forget_idle(self) -> None:
        """A few ids per turn: each is judged, and forgotten, in one turn of the loop."""
        names = self.coordinator.ids()
        try:
            for first in range(0, len(names), _AT_ONCE):
                for forgotten in self.coordinator.idle(self._clock.now_ms(), names[first : first + _AT_ONCE]):
                    self._store.commit(Section.TRANSACTIONS, forgotten, essential=True)
                    self.coordinator.apply(forgotten)
                await asyncio.sleep(0)
        except DiskFull as error:
            self._seldom.warning("transactional ids that are idle have to wait", why=str(error))
            self._swept_ms -= _SWEEP_EVERY_MS - _FULL_DISK_MS

    async def _expire_producers(self, now_ms: int) -> None:
        for number, partition in enumerate(list(self._topics.partitions.values())):
            if number % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            producers = partition.producers
            if producers is not None and producers.expire(now_ms) and producers.is_empty():
                partition.producers = None

    # --- carrying out ----------------------------------------------------------------------------

    def _submit(self, decision: Initialised | Added) -> asyncio.Future[None]:
        """Done once it is on disk; at once where there is nothing to write."""
        if not decision.deltas:
            nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        done = self._store.commit_together(
            [(Section.TRANSACTIONS, delta) for delta in decision.deltas],
            essential=True,
            then=partial(self.coordinator.synced, decision),
        )
        self.coordinator.submitted(decision)
        return done
