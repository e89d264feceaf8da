"""Transactions: the coordinator's decisions, carried out on the journal.

Ending is one all-or-none frame: the coordinator's delta, a marker for every partition and the end of the
staged group offsets. There is no moment at which a crash leaves a transaction half ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from mainstem.broker.partition import Partition
from mainstem.broker.store import Section, Store
from mainstem.broker.topics import Topics
from mainstem.kernel.groups.offsets import CommittedOffset, GroupOffsets, TxnOffsetsEnded, TxnOffsetsStaged
from mainstem.kernel.log.entries import BatchEntry, Entry
from mainstem.kernel.log.journal import NewPlace
from mainstem.kernel.txn.coordinator import TransactionCoordinator
from mainstem.kernel.txn.decisions import Added, Answered, Decision, Ending, Initialised
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.model.batch import BatchHeader
from mainstem.model.errors import ConcurrentTransactions, MainstemError
from mainstem.model.logs import get_log
from mainstem.model.ports import Clock
from mainstem.model.records import control_batch

events = get_log(__name__)

# One coordinator, one reign.
COORDINATOR_EPOCH = 0
# How often an id whose change is under way is asked again before the client is told to come back.
_TRIES = 20


class Transactions:
    def __init__(
        self,
        store: Store,
        coordinator: TransactionCoordinator,
        topics: Topics,
        offsets: GroupOffsets,
        clock: Clock,
        producer_expiry_ms: int,
    ) -> None:
        self.coordinator = coordinator
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._clock = clock
        self._producer_expiry_ms = producer_expiry_ms

    async def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, producer_id: int, epoch: int
    ) -> tuple[int, int]:
        """(producer id, epoch). An open transaction of the same id is aborted first."""
        for _ in range(_TRIES):
            decision = self.coordinator.init_producer_id(
                transactional_id, timeout_ms, producer_id, epoch, self._clock.now_ms()
            )
            if isinstance(decision, Initialised):
                await self._carry_out(decision)
                return decision.producer_id, decision.epoch
            # The abort bumped the epoch: the owner that asked goes on from the new identity.
            await self.end(decision)
            if producer_id >= 0:
                return decision.next_producer_id, decision.next_epoch
        raise ConcurrentTransactions(f"transactional id {transactional_id!r} has a change under way")

    async def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[int]
    ) -> None:
        now_ms = self._clock.now_ms()
        await self._carry_out(
            self.coordinator.add_partitions(transactional_id, producer_id, epoch, partitions, now_ms)
        )

    async def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> None:
        now_ms = self._clock.now_ms()
        await self._carry_out(
            self.coordinator.add_offsets(transactional_id, producer_id, epoch, group, now_ms)
        )

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
            added = self.coordinator.ensure_group(transactional_id, producer_id, epoch, group, now_ms)
            self._submit(added)
        else:
            self.coordinator.check_offset_commit(transactional_id, producer_id, epoch, group, abortable_known)
        staged = TxnOffsetsStaged(producer_id, group, list(offsets))
        # Applied at once: EndTxn may follow in the same turn, and its frame follows in the journal too.
        self._offsets.apply(staged)
        await self._store.commit(Section.OFFSETS, staged, essential=True)

    async def end_txn(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, *, bump: bool
    ) -> tuple[int, int]:
        """Commit or abort; the identity that the producer has from now on."""
        decision = self.coordinator.end_txn(
            transactional_id, producer_id, epoch, commit, bump, self._clock.now_ms()
        )
        if isinstance(decision, Answered):
            return decision.producer_id, decision.epoch
        await self.end(decision)
        return decision.next_producer_id, decision.next_epoch

    async def end(self, ending: Ending) -> None:
        """One frame with everything that ends the transaction."""
        now_ms = self._clock.now_ms()
        deltas: list[tuple[Section, object]] = [(Section.TRANSACTIONS, delta) for delta in ending.deltas]
        ended_offsets = TxnOffsetsEnded(ending.producer_id, ending.commit)
        deltas.append((Section.OFFSETS, ended_offsets))
        partitions = [self._topics.partitions.get(number) for number in ending.partitions]
        markers = [self._marker(partition, ending, now_ms) for partition in partitions if partition]
        done = self._store.commit_together(deltas, markers, essential=True)
        for partition in partitions:
            if partition is not None:
                self._give_marker(partition, ending, now_ms)
        self.coordinator.submitted(ending)
        await done
        self._offsets.apply(ended_offsets)
        self.coordinator.synced(ending)

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
        if version_2:
            self._submit(
                self.coordinator.ensure_partition(
                    transactional_id,
                    header.producer_id,
                    header.producer_epoch,
                    partition.id,
                    self._clock.now_ms(),
                )
            )
        else:
            self.coordinator.check_produce(
                transactional_id, header.producer_id, header.producer_epoch, partition.id, known
            )

    # --- carrying out ----------------------------------------------------------------------------

    def _submit(self, decision: Added) -> asyncio.Future[None] | None:
        if not decision.deltas:
            return None
        done = self._store.commit_together(
            [(Section.TRANSACTIONS, delta) for delta in decision.deltas], essential=True
        )
        self.coordinator.submitted(decision)
        done.add_done_callback(lambda _: self.coordinator.synced(decision))
        return done

    async def _carry_out(self, decision: Decision) -> None:
        if not decision.deltas:
            return
        done = self._store.commit_together(
            [(Section.TRANSACTIONS, delta) for delta in decision.deltas], essential=True
        )
        self.coordinator.submitted(decision)
        await done
        self.coordinator.synced(decision)

    async def tick(self) -> None:
        """Abort what is open beyond its timeout; forget what is idle."""
        now_ms = self._clock.now_ms()
        for ending in self.coordinator.expired(now_ms):
            events.event("transaction timed out", transactional_id=ending.transactional_id)
            try:
                await self.end(ending)
            except MainstemError as error:
                events.warning("a timed-out transaction could not be aborted yet", why=str(error))
        for forgotten in self.coordinator.idle(now_ms):
            self.coordinator.apply(forgotten)
            await self._store.commit(Section.TRANSACTIONS, forgotten, essential=True)
