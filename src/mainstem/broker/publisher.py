"""Publish: check a batch, give it its offsets, hand it to the journal. The hot path of every producer.

Types for the compiler are in publisher.pxd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mainstem.broker.looking import Looked, glance, must_be_repacked, repacked
from mainstem.broker.partition import Partition
from mainstem.broker.policy import TopicPolicy
from mainstem.broker.store import Section
from mainstem.kernel.log.log import Log
from mainstem.kernel.txn.producers import PartitionProducers
from mainstem.model.batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    checked_fields,
    header_of,
    place_batch,
    read_fields,
    stamp_append_time,
    stamp_max_timestamp,
)
from mainstem.model.errors import InvalidTimestamp, InvalidTransactionState, NotSupported
from mainstem.model.ports import Clock
from mainstem.model.records import NO_TIMESTAMP_MS, check_records

Done = Callable[[Any], None]
# Asked before the first transactional batch of a producer in a partition; may journal deltas, or refuse.
JoinTransaction = Callable[[Partition, BatchHeader], None]

NO_APPEND_TIME = -1
INT64_MAX = 2**63 - 1
# Offsets reserved at once for a topic with early acknowledgements: one wait for the disk per so many records.
RESERVED_OFFSETS = 1_000_000
# (partition id, upto, called once it is on disk)
Reserve = Callable[[int, int, Done], None]


class Publisher:
    def __init__(self, log: Log, clock: Clock, producer_expiry_ms: int, reserve: Reserve) -> None:
        self._log = log
        self._reserve = reserve
        self._clock = clock
        self._producer_expiry_ms = producer_expiry_ms
        # Since start; for whoever looks.
        self.messages = 0
        self.bytes = 0

    def publish(
        self,
        partition: Partition,
        batch: memoryview,
        done: Done | None,
        join_transaction: JoinTransaction | None = None,
        looked: Looked | None = None,
    ) -> tuple[int, int, bool]:
        """Base offset, append time (-1 where the producer's time counts), and whether the batch was copied;
        `done` follows once it is on disk.

        The batch is changed in place (offset, epoch, append time). Unless it was copied, it must then stay as
        it is until `done`. Raises HeavyBatch unless it was `looked` at already where that takes long.
        """
        policy = partition.topic.policy
        if looked is not None and looked.policy is not policy:
            looked = None  # its topic was changed meanwhile
        if looked is not None:
            batch = looked.batch
        fields = checked_fields(batch, policy.max_message_bytes)
        _, _, _, _, _, _, _, _, said_ms, producer_id, _, _, count = fields
        max_timestamp_ms = glance(policy, batch) if looked is None else looked.max_timestamp_ms
        if max_timestamp_ms != said_ms:
            stamp_max_timestamp(batch, max_timestamp_ms)
            fields = read_fields(batch)
        now_ms = self._clock.now_ms()
        append_time, early = NO_APPEND_TIME, False
        if policy.plain:
            if max_timestamp_ms > now_ms + policy.after_max_ms:
                raise _wrong_time(max_timestamp_ms, now_ms)
        else:
            batch = _as_wanted(policy, batch, header_of(fields), now_ms)
            early = policy.early
            if policy.append_time:
                append_time = max_timestamp_ms = now_ms
        header = None
        if producer_id >= 0:
            header = header_of(fields)
            duplicate_of = self._check_producer(partition, header, now_ms, join_transaction)
            if duplicate_of is not None:
                self._wait_for(partition, duplicate_of + count, done)
                return duplicate_of, append_time, False
        size = len(batch)
        if not self._log.has_room(size):
            self._log.check_room(size)
        if append_time >= 0:
            stamp_append_time(batch, now_ms)
        base = partition.next_offset
        place_batch(batch, base, partition.epochs[-1][0])
        partition.next_offset = base + count
        self.messages += count
        self.bytes += size
        if header is not None:
            self._note_producer(partition, header, base, now_ms)
        last = base + count - 1
        early = early and self._may_be_early(partition, last)
        copied = self._log.append_batch(partition.id, batch, base, last, max_timestamp_ms, done, early)
        return base, append_time, copied

    def check(self, partition: Partition, batch: memoryview) -> memoryview:
        """The batch as its topic keeps it, for who writes it in one frame with others: without an offset yet.

        Raises what `publish` would. Producers that number their batches have to publish: nobody looks here
        whether they repeat one.
        """
        policy = partition.topic.policy
        header = header_of(checked_fields(batch, policy.max_message_bytes))
        if header.producer_id >= 0:
            raise NotSupported("a batch that its producer has numbered cannot be part of something larger")
        check_records(batch, need_keys=policy.compact)
        return _as_wanted(policy, batch, header, self._clock.now_ms())

    def _note_producer(self, partition: Partition, header: BatchHeader, base: int, now_ms: int) -> None:
        self._producers(partition).appended(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            base,
            header.attributes & TRANSACTIONAL_BIT != 0,
            now_ms,
        )

    def _may_be_early(self, partition: Partition, last: int) -> bool:
        """Whether the offset is known on disk as taken. If not, a block is reserved and this batch waits."""
        if last < partition.reserved_on_disk:
            return True
        if last >= partition.reserved:
            upto = partition.reserved = last + 1 + RESERVED_OFFSETS

            def on_disk(_: object) -> None:
                partition.reserved_on_disk = upto

            self._reserve(partition.id, upto, on_disk)
        return False

    def _producers(self, partition: Partition) -> PartitionProducers:
        if partition.producers is None:
            partition.producers = PartitionProducers(self._producer_expiry_ms)
        return partition.producers

    def _check_producer(
        self, partition: Partition, header: BatchHeader, now_ms: int, join_transaction: JoinTransaction | None
    ) -> int | None:
        producers = self._producers(partition)
        transactional = header.attributes & TRANSACTIONAL_BIT != 0
        duplicate_of = producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            transactional,
            now_ms,
        )
        if duplicate_of is None and transactional:
            if join_transaction is None:
                # Nobody would ever end it: it would hold back every committed reader of the partition.
                raise InvalidTransactionState("a transactional batch in a request without a transactional id")
            if not producers.is_open(header.producer_id):
                join_transaction(partition, header)
        return duplicate_of

    def _wait_for(self, partition: Partition, offset: int, done: Done | None) -> None:
        """A retry is acknowledged when its original is on disk, not before."""
        if done is None:
            return
        if partition.high_watermark >= offset:
            done(None)
        else:
            # Behind the original in the journal. Readers wait at the partition instead; but if its topic is
            # deleted meanwhile, nothing ever comes there.
            self._log.append_delta(Section.NOTHING, b"", done)


def _as_wanted(policy: TopicPolicy, batch: memoryview, header: BatchHeader, now_ms: int) -> memoryview:
    """The batch as its topic keeps it: what came, or compressed anew."""
    if not policy.append_time and (
        header.max_timestamp_ms > now_ms + policy.after_max_ms
        or (
            policy.before_max_ms != INT64_MAX
            and header.base_timestamp_ms != NO_TIMESTAMP_MS
            and header.base_timestamp_ms < now_ms - policy.before_max_ms
        )
    ):
        raise _wrong_time(header.max_timestamp_ms, now_ms)
    return repacked(policy, batch) if must_be_repacked(policy, batch) else batch


def _wrong_time(timestamp_ms: int, now_ms: int) -> InvalidTimestamp:
    return InvalidTimestamp(
        f"timestamp {timestamp_ms} is too far from the broker's {now_ms}; see "
        "message.timestamp.after.max.ms and message.timestamp.before.max.ms"
    )
