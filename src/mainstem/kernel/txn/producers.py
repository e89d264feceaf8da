"""What one partition knows of its idempotent and transactional producers.

Rules (the behaviour of Apache Kafka 4, restated):

- A producer is (id, epoch); each of its batches carries a base sequence. Sequences grow by one per
  record and wrap from 2^31-1 to 0.
- A batch equal to one of the last five (same epoch, base sequence and count) is a duplicate: it is
  answered with its first offset and not appended. One that lies wholly before those five, inside what
  this partition knows it appended, is a `DuplicateSequence`: stored, but its offset is forgotten.
- An old epoch is refused; a new epoch starts at sequence 0; a gap is refused.
- A producer this partition does not know may start anywhere: its state may have expired. The one
  exception is a transactional batch of a client that gets a new epoch per transaction
  (`must_start_at_zero`): such a client never continues after its state is gone.
- Trimming the log forgets no producer. Only `expire` (idle for `expiry_ms`, no open transaction) does, and
  where there are very many, a shorter time without a word (`MANY_PRODUCERS`).
- A transaction is open here from its first batch to its marker. Ended ones still hold the last stable
  offset back until their marker is on disk, that is, below the high watermark.

Order of calls: `check` and `appended` run at append time, in offset order, before the sync. Nothing is
rolled back: if the journal fails the process ends. So a duplicate may be found while the original is not
yet synced; the caller acks it only once `base_offset + record_count` is at or below the high watermark.

Replay calls `appended` and `ended` for what the journal holds. They skip whatever lies below the end
offset that the snapshot already covered, so replaying a batch twice changes nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from mainstem.kernel.txn.deltas import PartitionProducersState
from mainstem.model.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    OutOfOrderSequence,
    PolicyViolation,
)

NO_PRODUCER_ID: Final = -1
DEFAULT_EXPIRY_MS: Final = 24 * 3600 * 1000
WINDOW_BATCHES: Final = 5
MANY_PRODUCERS: Final = 5_000
"""Beyond it those idle for `IDLE_MS`, without an open transaction, are forgotten before they expire."""
IDLE_MS: Final = 15 * 60 * 1000
"""No client repeats a batch after so long: whoever is forgotten then cannot write anything twice."""
MAX_PRODUCERS: Final = 100_000
"""Remembered per partition, 45 MB of them. A new one is refused rather than a busy one forgotten."""
_SWEEP_EVERY_MS: Final = 1_000

_SEQUENCE_MASK: Final = 0x7FFFFFFF
_KEY_MASK: Final = (1 << 62) - 1


class ProducerInfo(NamedTuple):
    """One row of DescribeProducers. `txn_first_offset` is -1 without an open transaction."""

    producer_id: int
    epoch: int
    last_sequence: int  # -1 when nothing was written in this epoch
    last_append_ms: int
    txn_first_offset: int


class _Producer:
    """`window` holds the last batches of this epoch, oldest first, one int each:
    base offset << 62 | base sequence << 31 | record count - 1. One int is a fifth of the memory of a
    tuple of three, and the low 62 bits are the key that a duplicate must equal."""

    __slots__ = ("epoch", "known_records", "last_append_ms", "next_sequence", "window")

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.known_records = 0  # appended in this epoch: sequences before next_sequence surely stored
        self.last_append_ms = now_ms
        self.window: list[int] = []

    def restart(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.known_records = 0
        self.window = []


class _Aborted:
    """Aborted transactions in marker order, as columns. `stable[i]` is where the log was stable once i had
    ended: no transaction that ended after i has a first offset below it, so a search may stop there."""

    __slots__ = ("first", "last", "producer", "stable")

    def __init__(self) -> None:
        self.producer = array("q")
        self.first = array("q")
        self.last = array("q")
        self.stable = array("q")

    def drop_before(self, count: int) -> None:
        for column in (self.producer, self.first, self.last, self.stable):
            del column[:count]


class PartitionProducers:
    """One per partition that ever saw a producer id. See the module's rules."""

    __slots__ = (
        "_aborted",
        "_end_offset",
        "_ended_unsynced",
        "_expiry_ms",
        "_many",
        "_open",
        "_producers",
        "_swept_ms",
    )

    def __init__(self, expiry_ms: int = DEFAULT_EXPIRY_MS) -> None:
        self._producers: dict[int, _Producer] = {}
        # Producer id -> first offset. Offsets only grow and an ended one is deleted, so the first entry
        # always has the lowest offset.
        self._open: dict[int, int] = {}
        # (first offset, marker offset) of ended transactions whose marker was not yet seen synced.
        self._ended_unsynced: list[tuple[int, int]] | None = None
        self._aborted: _Aborted | None = None
        self._end_offset = 0  # everything below is in this state
        self._expiry_ms = expiry_ms
        self._many = MANY_PRODUCERS  # with so many it is time to look for idle ones
        self._swept_ms = -_SWEEP_EVERY_MS

    # --- hot path --------------------------------------------------------------------------------

    def check(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        record_count: int,
        transactional: bool,
        now_ms: int,
        must_start_at_zero: bool = False,
    ) -> int | None:
        """None: append it. An offset: a duplicate, stored at that base offset with `record_count` records.

        Raises OutOfOrderSequence, DuplicateSequence, InvalidProducerEpoch, InvalidTransactionState, or
        InvalidRecord for a negative epoch or sequence.
        Whether a transactional batch belongs to a transaction at all is the coordinator's question: ask it
        when this returns None and `is_open(producer_id)` is false.
        """
        producer = self._producers.get(producer_id)
        if (
            producer is not None
            and producer.next_sequence == base_sequence
            and producer.epoch == epoch
            and (transactional or producer_id not in self._open)
        ):
            return None
        if producer_id >= 0 and (base_sequence < 0 or epoch < 0):
            raise InvalidRecord(f"producer {producer_id} sent epoch {epoch}, sequence {base_sequence}")
        if producer is None:
            if must_start_at_zero and transactional and base_sequence != 0 and producer_id >= 0:
                raise OutOfOrderSequence(
                    f"producer {producer_id} is not known here and starts at {base_sequence}, not 0"
                )
            if len(self._producers) >= MAX_PRODUCERS and producer_id >= 0:
                self._sweep(now_ms)
                if len(self._producers) >= MAX_PRODUCERS:
                    raise PolicyViolation(
                        f"{MAX_PRODUCERS} producers wrote to this partition within the last "
                        f"{IDLE_MS // 60_000} minutes; no more can be remembered"
                    )
            return None
        return self._check_unexpected(
            producer_id, producer, epoch, base_sequence, record_count, transactional, now_ms
        )

    def appended(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        record_count: int,
        base_offset: int,
        transactional: bool,
        now_ms: int,
    ) -> None:
        """A batch of this producer now lies at `base_offset`. Also the replay of one from the journal."""
        if base_offset < self._end_offset or producer_id < 0:
            return
        self._end_offset = base_offset + record_count
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch, now_ms)
        if producer.next_sequence != base_sequence or producer.epoch != epoch:
            producer.restart(epoch)  # a new epoch, or a start after expiry: what was known no longer counts
        producer.next_sequence = (base_sequence + record_count) & _SEQUENCE_MASK
        producer.known_records += record_count
        producer.last_append_ms = now_ms
        window = producer.window
        window.append(base_offset << 62 | base_sequence << 31 | (record_count - 1))
        if len(window) > WINDOW_BATCHES:
            del window[0]
        if transactional and producer_id not in self._open:
            self._open[producer_id] = base_offset

    def _check_unexpected(
        self,
        producer_id: int,
        producer: _Producer,
        epoch: int,
        base_sequence: int,
        record_count: int,
        transactional: bool,
        now_ms: int,
    ) -> int | None:
        """Everything but the next batch in order: retries, new epochs, errors, expired state."""
        if epoch == producer.epoch:
            key = base_sequence << 31 | (record_count - 1)
            for batch in producer.window:
                if batch & _KEY_MASK == key:
                    return batch >> 62
        is_open = producer_id in self._open
        if not is_open and now_ms - producer.last_append_ms >= self._expiry_ms:
            return None  # due to be forgotten: treat it as unknown, whether or not `expire` ran yet
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} writes with epoch {epoch}, the last seen is {producer.epoch}"
            )
        expected = producer.next_sequence if epoch == producer.epoch else 0
        if base_sequence != expected:
            if epoch == producer.epoch and _is_forgotten(producer, base_sequence, record_count):
                raise DuplicateSequence(
                    f"producer {producer_id} sent sequence {base_sequence} again; {expected} is next"
                )
            raise OutOfOrderSequence(
                f"producer {producer_id} epoch {epoch} sent sequence {base_sequence}, expected {expected}"
            )
        if is_open and not transactional:
            raise InvalidTransactionState(f"producer {producer_id} has an open transaction here")
        return None

    def _add(self, producer_id: int, epoch: int, now_ms: int) -> _Producer:
        if len(self._producers) >= self._many:
            self._sweep(now_ms)
            # The next look once there are a tenth more: each takes a while.
            self._many = max(MANY_PRODUCERS, len(self._producers) * 11 // 10)
        producer = self._producers[producer_id] = _Producer(epoch, now_ms)
        return producer

    def _sweep(self, now_ms: int) -> None:
        """Forget those that have been idle for a while; not more often than is of use."""
        if 0 <= now_ms - self._swept_ms < _SWEEP_EVERY_MS:
            return
        self._swept_ms = now_ms
        self._forget(now_ms - min(IDLE_MS, self._expiry_ms))

    # --- transactions ----------------------------------------------------------------------------

    def is_open(self, producer_id: int) -> bool:
        """Whether this producer has an open transaction with data in this partition."""
        return producer_id in self._open

    def open_transactions(self) -> dict[int, int]:
        """Producer id -> first offset of each open transaction, lowest offset first."""
        return dict(self._open)

    def epoch_of(self, producer_id: int) -> int:
        """The last epoch seen here; -1 for an unknown producer."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.epoch

    def ended(self, producer_id: int, epoch: int, commit: bool, marker_offset: int, now_ms: int) -> None:
        """A commit or abort marker now lies at `marker_offset`. Also the replay of one.

        A marker with a higher epoch fences the older one here, even where the transaction wrote nothing.
        """
        if marker_offset < self._end_offset:
            return
        self._end_offset = marker_offset + 1
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch, now_ms)
        if epoch > producer.epoch:
            producer.restart(epoch)
        producer.last_append_ms = now_ms
        first = self._open.pop(producer_id, None)
        if first is None:
            return
        if self._ended_unsynced is None:
            self._ended_unsynced = []
        self._ended_unsynced.append((first, marker_offset))
        if not commit:
            aborted = self._aborted
            if aborted is None:
                aborted = self._aborted = _Aborted()
            aborted.producer.append(producer_id)
            aborted.first.append(first)
            aborted.last.append(marker_offset)
            aborted.stable.append(next(iter(self._open.values()), marker_offset + 1))

    def last_stable_offset(self, high_watermark: int) -> int:
        """No record at or above it may be shown to a read_committed reader yet."""
        stable = high_watermark
        if self._ended_unsynced:
            self._ended_unsynced = [
                pair for pair in self._ended_unsynced if pair[1] >= high_watermark
            ] or None
            for first, _ in self._ended_unsynced or ():
                stable = min(stable, first)
        if self._open:
            stable = min(stable, next(iter(self._open.values())))
        return stable

    def aborted_between(self, from_offset: int, to_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction with anything in [from, to), in order of
        first offset: what a fetch of that range must carry. `to_offset` is the end of what is returned."""
        aborted = self._aborted
        if aborted is None:
            return []
        found: list[tuple[int, int]] = []
        for i in range(bisect_left(aborted.last, from_offset), len(aborted.last)):
            if aborted.first[i] < to_offset:
                found.append((aborted.producer[i], aborted.first[i]))
            if aborted.stable[i] >= to_offset:
                break
        found.sort(key=lambda pair: pair[1])
        return found

    # --- housekeeping ----------------------------------------------------------------------------

    def trim(self, log_start: int) -> None:
        """The log now starts at `log_start`: drop aborted transactions that ended before it.

        An open transaction that began before it holds the last stable offset at the start of the log.
        """
        if self._aborted is not None:
            self._aborted.drop_before(bisect_left(self._aborted.last, log_start))
            if not self._aborted.last:
                self._aborted = None
        for producer_id, first in self._open.items():
            if first >= log_start:
                break
            self._open[producer_id] = log_start
        if self._ended_unsynced:
            self._ended_unsynced = [(max(first, log_start), end) for first, end in self._ended_unsynced]

    def expire(self, now_ms: int) -> int:
        """Forget producers idle for `expiry_ms` that have no open transaction. Returns how many."""
        return self._forget(now_ms - self._expiry_ms)

    def _forget(self, idle_since_ms: int) -> int:
        idle = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.last_append_ms <= idle_since_ms and producer_id not in self._open
        ]
        for producer_id in idle:
            del self._producers[producer_id]
        return len(idle)

    def is_empty(self) -> bool:
        """True when the object may be dropped: nothing would be lost with it."""
        return not (self._producers or self._open or self._ended_unsynced or self._aborted)

    def __len__(self) -> int:
        return len(self._producers)

    def describe(self) -> list[ProducerInfo]:
        return [
            ProducerInfo(
                producer_id,
                producer.epoch,
                (producer.next_sequence - 1) & _SEQUENCE_MASK if producer.window else -1,
                producer.last_append_ms,
                self._open.get(producer_id, -1),
            )
            for producer_id, producer in self._producers.items()
        ]

    # --- snapshot --------------------------------------------------------------------------------

    def dump(self, partition_id: int) -> Iterator[PartitionProducersState]:
        """The whole state as one delta, so that a snapshot taken in slices never splits a partition."""
        if self.is_empty():
            return
        aborted = self._aborted
        yield PartitionProducersState(
            partition_id,
            self._end_offset,
            [
                (pid, p.epoch, p.next_sequence, p.known_records, p.last_append_ms, _unpacked(p.window))
                for pid, p in self._producers.items()
            ],
            list(self._open.items()),
            []
            if aborted is None
            else list(zip(aborted.producer, aborted.first, aborted.last, aborted.stable, strict=True)),
        )

    def apply(self, delta: PartitionProducersState) -> None:
        """Become what was dumped. Ended transactions need no waiting: what is replayed is on disk."""
        self._end_offset = delta.end_offset
        self._producers = {}
        for producer_id, epoch, next_sequence, known_records, last_append_ms, window in delta.producers:
            producer = self._producers[producer_id] = _Producer(epoch, last_append_ms)
            producer.next_sequence = next_sequence
            producer.known_records = known_records
            producer.window = [offset << 62 | sequence << 31 | last for offset, sequence, last in window]
        self._open = dict(delta.open_transactions)
        self._ended_unsynced = None
        self._aborted = None
        if delta.aborted:
            self._aborted = aborted = _Aborted()
            for producer_id, first, last, stable in delta.aborted:
                aborted.producer.append(producer_id)
                aborted.first.append(first)
                aborted.last.append(last)
                aborted.stable.append(stable)


def _unpacked(window: list[int]) -> list[tuple[int, int, int]]:
    return [(batch >> 62, batch >> 31 & _SEQUENCE_MASK, batch & _SEQUENCE_MASK) for batch in window]


def _is_forgotten(producer: _Producer, base_sequence: int, record_count: int) -> bool:
    """The batch lies wholly in what was appended in this epoch, before the oldest one in the window."""
    if not producer.window:
        return False
    back = (producer.next_sequence - base_sequence) & _SEQUENCE_MASK
    window_start = producer.window[0] >> 31 & _SEQUENCE_MASK
    window_records = (producer.next_sequence - window_start) & _SEQUENCE_MASK
    return window_records + record_count <= back <= producer.known_records
