"""The one door: everything that fronts may do to topics, partitions, groups and transactions.

Runs on one loop. What is durable is a machine in `parts`, changed by deltas that are in the journal; what
the hot path needs (partitions, producers) is plain objects that replay rebuilds.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping

from mainstem.broker.access.book import AccessBook, AccessDelta
from mainstem.broker.access.security import Security
from mainstem.broker.groups import GroupCoordinator
from mainstem.broker.looking import Looker
from mainstem.broker.options import BrokerOptions
from mainstem.broker.partition import Partition, Topic, raise_watermarks
from mainstem.broker.policy import Policies, check_config
from mainstem.broker.publisher import Publisher
from mainstem.broker.queues import Queues
from mainstem.broker.queues.deltas import AckDelta, DelayDelta, TopologyDelta
from mainstem.broker.reading import Reading
from mainstem.broker.shares import ShareBook, ShareDelta, Shares
from mainstem.broker.sinks import STAGING, SinkDelta, SinkPublisher, Sinks
from mainstem.broker.store import Part, Rebuild, Section, Store, part
from mainstem.broker.system import SystemChance, SystemClock
from mainstem.broker.topics import (
    EpochsBegun,
    OffsetsReserved,
    TopicCreated,
    TopicDelta,
    Topics,
    check_topic_name,
)
from mainstem.broker.transactions import Transactions
from mainstem.kernel.groups.offsets import GroupOffsets, OffsetDelta
from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.entries import BatchEntry
from mainstem.kernel.log.journal import NewPlace, Round
from mainstem.kernel.txn.coordinator import TransactionCoordinator
from mainstem.kernel.txn.deltas import CoordinatorDelta, PartitionProducersState
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.model.batch import CONTROL_BIT, TRANSACTIONAL_BIT, read_header
from mainstem.model.errors import InvalidPartitions, TopicExists
from mainstem.model.logs import get_log
from mainstem.model.meters import Meters
from mainstem.model.ports import Chance, Clock, Disk
from mainstem.model.records import NO_TIMESTAMP_MS, empty_batch, read_control

events = get_log(__name__)

# Topics of our own tools, which lists and patterns leave out: staged batches, and the book of pipelines.
INTERNAL = frozenset({STAGING, "__pipelines", "__pipeline_log"})


class _Producers:
    """Producer state of all partitions as one machine, for snapshots; batches are its deltas otherwise."""

    def __init__(self, topics: Topics, expiry_ms: int) -> None:
        self._topics = topics
        self._expiry_ms = expiry_ms

    def apply(self, delta: PartitionProducersState) -> None:
        partition = self._topics.partitions.get(delta.partition_id)
        if partition is not None:
            partition.producers = PartitionProducers(self._expiry_ms)
            partition.producers.apply(delta)

    def dump(self) -> Iterator[PartitionProducersState]:
        for partition in list(self._topics.partitions.values()):
            if partition.producers is not None:
                yield from partition.producers.dump(partition.id)


class Broker:
    """Made by `await Broker.open(options)`; `close` ends it with everything on disk."""

    store: Store
    publisher: Publisher
    reading: Reading
    transactions: Transactions
    groups: GroupCoordinator
    security: Security
    sinks: SinkPublisher
    shares: Shares

    def __init__(self, options: BrokerOptions, clock: Clock, chance: Chance) -> None:
        self.options = options
        self.clock = clock
        self.chance = chance
        self.topics = Topics(Policies(options.topic_defaults))
        self.offsets = GroupOffsets()
        self.access = AccessBook()
        self._sinks = Sinks()
        self.coordinator = TransactionCoordinator(
            options.max_transaction_timeout_ms, options.transactional_id_expiry_ms
        )
        self.queues = Queues(self.topics, clock)
        self.share_book = ShareBook(self.topics, options)
        # In the order of a snapshot: the lanes of queues are partitions, which TOPICS says how far reach.
        self.parts: dict[Section, Part] = {
            Section.QUEUES: part(self.queues.book, TopologyDelta),
            Section.TOPICS: part(self.topics, TopicDelta),
            Section.PRODUCERS: part(
                _Producers(self.topics, options.producer_expiry_ms), PartitionProducersState
            ),
            Section.OFFSETS: part(self.offsets, OffsetDelta),
            Section.TRANSACTIONS: part(self.coordinator, CoordinatorDelta),
            Section.ACCESS: part(self.access, AccessDelta),
            Section.SINKS: part(self._sinks, SinkDelta),
            Section.ACKS: part(self.queues.ack_book, AckDelta),
            Section.DELAYS: part(self.queues.delay_book, DelayDelta),
            Section.SHARES: part(self.share_book, ShareDelta),
        }
        self.looker = Looker()
        self.meters = Meters()
        self._lock: object = None
        # Producers met in replay count as active now: a batch's own timestamp may be years old, and who is
        # taken for long idle is not checked for gaps and repeats.
        self._replay_ms = clock.now_ms()

    @classmethod
    async def open(
        cls,
        options: BrokerOptions,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> Broker:
        disk = disk or OsDisk()
        self = cls(options, clock or SystemClock(), chance or SystemChance())
        disk.make_folder(options.folder)
        self._lock = disk.lock(f"{options.folder}/LOCK")
        self.store = Store.open(
            disk,
            options.folder,
            options.log,
            self.parts,
            Rebuild(self.parts, self._replay_batch, self._replay_link, self._replay_reached),
            on_failure or _end_process,
            self._new_log_id,
            options.reader_threads,
        )
        log = self.store.log
        for warning in log.warnings:
            events.warning("recovered with a loss of convenience", what=warning)
        log.on_synced = self._on_synced
        self.publisher = Publisher(log, self.clock, options.producer_expiry_ms, self._reserve_offsets)
        self.reading = Reading(log)
        self.groups = GroupCoordinator(
            self.store, self.offsets, self.share_book, self.clock, self.chance, options
        )
        self.transactions = Transactions(
            self.store,
            self.coordinator,
            self.topics,
            self.offsets,
            self.clock,
            options.producer_expiry_ms,
            self.groups.is_consumer,
        )
        self.shares = Shares(self.share_book, self.store, self.reading, self.clock)
        self.security = Security(self.access, self.store, self.chance)
        self.sinks = SinkPublisher(self.store, self._sinks, self.topics, self.clock)
        log.start(asyncio.get_running_loop().call_soon)
        await self._skip_reserved()
        await self.queues.start(self.store)
        return self

    def drain(self) -> None:
        """The end is near: whoever waits for something that may take long is answered now."""
        self.groups.close()

    async def close(self) -> None:
        self.drain()
        self.shares.close()
        await self.queues.close()
        for partition in self.topics.partitions.values():
            if partition.reserved > partition.next_offset:
                self._reserve_offsets(partition.id, partition.next_offset, lambda _: None)
        await self.store.close()
        self.looker.close()
        self._lock = None

    def _new_log_id(self) -> str:
        return base64.urlsafe_b64encode(self.chance.uuid()).decode().rstrip("=")

    @property
    def cluster_id(self) -> str:
        return self.options.cluster_id or self.store.log.files.manifest.log_id

    # --- topics that are acknowledged early ------------------------------------------------------

    def _reserve_offsets(self, partition_id: int, upto: int, done: Callable[[object], None]) -> None:
        self.store.append(Section.TOPICS, OffsetsReserved(partition_id, upto), done)

    async def _skip_reserved(self) -> None:
        """After an unclean stop messages may be gone that were acknowledged early: go on behind them.

        Their offsets are given to nobody else. A batch without records lies there, so that readers get to
        the end, and a new leader epoch tells them why.
        """
        early = [topic.name for topic in self.topics.by_name.values() if topic.policy.early]
        if early:
            events.warning("acknowledged before it is on disk", topics=len(early), first=early[0])
        waits = []
        for partition in self.topics.partitions.values():
            first, upto = partition.next_offset, partition.reserved
            if upto > first:
                events.warning("offsets skipped after an unclean stop", partition=str(partition), upto=upto)
                begun = EpochsBegun(partition.id, (*partition.epochs, (partition.leader_epoch + 1, upto)))
                waits.append(self._fill(partition, first, upto, [(Section.TOPICS, begun)]))
                self.topics.apply(begun)
            elif len(partition.epochs) > 1 and partition.epochs[-1][1] == first:
                # Skipped before, and not written to since: earlier versions left nothing in between.
                stored = max(self.store.log.next_offset(partition.id), partition.log_start)
                if stored < first:
                    waits.append(self._fill(partition, stored, first, []))
        if waits:
            await asyncio.wait(waits)

    def _fill(
        self, partition: Partition, first: int, upto: int, deltas: list[tuple[Section, TopicDelta]]
    ) -> asyncio.Future[None]:
        """Of the epoch that these offsets belong to, in one frame with what begins behind them."""
        epoch = next(epoch for epoch, start in reversed(partition.epochs) if start < upto)
        batch = empty_batch(first, upto - 1, epoch)
        place = NewPlace(partition.id, first, upto - 1, NO_TIMESTAMP_MS, len(batch))
        return self.store.commit_together(deltas, [BatchEntry(partition.id, batch, place)], essential=True)

    # --- replay --------------------------------------------------------------------------------

    def _replay_batch(self, partition_id: int, batch: memoryview) -> None:
        partition = self.topics.partitions.get(partition_id)
        if partition is None:
            return
        header = read_header(batch)
        base = header.base_offset
        next_offset = base + header.last_offset_delta + 1
        if next_offset > partition.next_offset:
            partition.next_offset = partition.high_watermark = next_offset
        if header.producer_id < 0:
            return
        producers = partition.producers
        if producers is None:
            producers = partition.producers = PartitionProducers(self.options.producer_expiry_ms)
        now_ms = self._replay_ms
        if header.attributes & CONTROL_BIT:
            producers.ended(header.producer_id, header.producer_epoch, read_control(batch), base, now_ms)
        else:
            producers.appended(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.record_count,
                base,
                header.attributes & TRANSACTIONAL_BIT != 0,
                now_ms,
            )

    def _replay_reached(self, lasts: Mapping[int, int]) -> None:
        """Of batches without a producer: all that they change is how far a partition reaches."""
        partitions = self.topics.partitions
        for partition_id, last in lasts.items():
            partition = partitions.get(partition_id)
            if partition is not None and last >= partition.next_offset:
                partition.next_offset = partition.high_watermark = last + 1

    def _replay_link(self, partition_id: int, base: int, last: int) -> None:
        partition = self.topics.partitions.get(partition_id)
        if partition is not None and last >= partition.next_offset:
            partition.next_offset = partition.high_watermark = last + 1

    def _on_synced(self, done: Round) -> None:
        """High watermarks grow to what is on disk; whoever waits for a partition is called once."""
        woken = raise_watermarks(self.topics.partitions, done)
        if woken:
            for waiter in woken:
                try:
                    waiter()
                except Exception as error:  # who reads must not keep those who wrote from hearing of it
                    events.error("a reader that waited failed", error=error)

    # --- topics --------------------------------------------------------------------------------

    async def create_topic(
        self, name: str, partitions: int = -1, configs: Mapping[str, str] | None = None
    ) -> Topic:
        """Exists, and is on disk, when this returns. -1 partitions: the default number."""
        made = self.plan_topic(name, partitions, configs)
        # Journalled before applied: on a full disk there must not be a topic that a restart does not know.
        done = self.store.commit(Section.TOPICS, made)
        self.topics.apply(made)
        topic = self.topics.by_id[made.topic_id]
        tell_created(topic)
        await done
        return topic

    def plan_topic(
        self, name: str, partitions: int = -1, configs: Mapping[str, str] | None = None
    ) -> TopicCreated:
        """Check a wish for a topic; what would be journalled for it."""
        check_topic_name(name)
        if name in self.topics.by_name:
            raise TopicExists(f"Topic '{name}' already exists.")
        count = self.options.default_partitions if partitions == -1 else partitions
        if not 0 < count <= self.options.max_partitions:
            raise InvalidPartitions(f"{count} partitions; 1 to {self.options.max_partitions} are allowed")
        for key, value in (configs or {}).items():
            check_config(key, value)
        return TopicCreated(
            name,
            self.chance.uuid(),
            self.topics.new_partition_ids(count),
            dict(configs or {}),
            self.clock.now_ms(),
            internal=name in INTERNAL,
        )


def tell_created(topic: Topic) -> None:
    """Those that are early because all are by default were told of at the start."""
    if topic.policy.early and "durability" in topic.configs:
        tell_early(topic)


def tell_early(topic: Topic) -> None:
    events.warning("acknowledged before it is on disk", topic=topic.name)


def _end_process(error: BaseException) -> None:
    """After a failed write or sync nothing may be acknowledged any more: stop at once, loudly."""
    import os
    import sys

    sys.stderr.write(
        f"mainstem: the disk failed: {error}. Nothing is acknowledged after this; the process ends.\n"
    )
    sys.stderr.flush()
    os._exit(70)
