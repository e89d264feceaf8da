"""Key compaction of one partition: what a merge keeps of its batches.

The rules (Kafka's, restated for runs):

- Only batches below a bound are touched: the last stable offset, the first batch younger than the minimum
  lag, the first that cannot be read, and the first offset of a transaction whose end does not lie in these
  files.
- Of each key the last record stays. Records without a key go, and so do those of aborted transactions.
- A tombstone stays for the retention time, counted from the first merge that saw it as the last of its key:
  that merge writes the horizon into the batch. It goes afterwards, but only when no older file outside the
  merge holds the partition, or what it deletes would come back.
- A batch keeps its base and last offset, its producer and its sequence. The last batch of each producer stays
  even when it is empty, so that sequences can be told from the log; and so does the last one of all, so that
  readers reach the end.
- Abort markers stay while they are above the floor: readers are told of aborted transactions by state that
  outlives the records, and the marker is what ends one for them. A commit marker goes with the last record of
  its transaction.

Memory: one bit per record and at most `max_keys` digests of keys. With more keys than that, the records are
read again for each further share of the keys.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from hashlib import blake2b

from mainstem.kernel.log.jobs import CompactOrder
from mainstem.model.batch import BatchHeader, read_header
from mainstem.model.errors import MainstemError
from mainstem.model.ports import Buffer
from mainstem.model.records import RecordKey, filter_batch, read_control, record_keys

Batches = Callable[[], Iterable[Buffer]]
_DIGEST_BYTES = 16


class Compaction:
    """`study` all batches of the partition first, then give them one by one, in order, to `clean`."""

    def __init__(self, order: CompactOrder, now_ms: int, max_keys: int) -> None:
        self._order = order
        self._now_ms = now_ms
        self._max_keys = max_keys
        self.bound = order.stable_offset
        self.records_removed = 0
        self._last_batch: dict[int, int] = {}  # producer id -> base offset of its last batch
        self._last_base = -1  # of the partition's last batch in these files
        # Producer id -> first offset and marker offset of its aborted transactions, in order.
        self._aborted: dict[int, tuple[list[int], list[int]]] = {}
        self._superseded = bytearray()  # one bit per record, in the order of reading
        self._record = 0
        # Producer id -> whether a record of its open transaction was kept; absent: its start was not seen.
        self._kept_in_txn: dict[int, bool] = {}

    def hold_back(self, offset: int) -> None:
        """Touch nothing from there on; before `study`."""
        self.bound = min(self.bound, offset)

    def study(self, batches: Batches) -> None:
        self._study_headers(batches())
        self._study_keys(batches)

    def clean(self, batch: Buffer) -> Buffer | None:
        """What is left of a batch: itself, a smaller one, or None."""
        header = read_header(batch)
        if header.base_offset >= self.bound:
            return batch
        stays = header.base_offset in (self._last_batch.get(header.producer_id), self._last_base)
        if header.is_control:
            return batch if self._marker_stays(batch, header) or stays else None
        if header.is_transactional and header.producer_id >= 0:
            self._kept_in_txn.setdefault(header.producer_id, False)
        if self._is_aborted(header):
            self.records_removed += header.record_count
            return filter_batch(batch, lambda record: False, keep_empty=stays)
        if not header.record_count:
            return batch if stays else None
        records = _keys(batch)
        if records is None:
            return batch
        return self._filter(batch, header, records, stays)

    # --- what to know before anything is written ------------------------------------------------

    def _study_headers(self, batches: Iterable[Buffer]) -> None:
        open_txns: dict[int, int] = {}
        young_ms = self._now_ms - self._order.min_lag_ms
        bound = self.bound
        for batch in batches:
            header = read_header(batch)
            producer, base = header.producer_id, header.base_offset
            self._last_base = base
            if producer >= 0:
                self._last_batch[producer] = base
            if base >= bound:
                continue
            if self._order.min_lag_ms > 0 and header.max_timestamp_ms > young_ms:
                bound = base
            elif header.is_control:
                first = open_txns.pop(producer, None)
                if first is not None and not _commits(batch):
                    firsts, lasts = self._aborted.setdefault(producer, ([], []))
                    firsts.append(first)
                    lasts.append(base)
            elif header.is_transactional and producer >= 0:
                open_txns.setdefault(producer, base)
        self.bound = min([bound, *open_txns.values()])

    def _study_keys(self, batches: Batches) -> None:
        shares = self._mark_superseded(batches(), 1, 0)
        for share in range(1, shares):
            self._mark_superseded(batches(), shares, share)

    def _mark_superseded(self, batches: Iterable[Buffer], shares: int, share: int) -> int:
        """Find records that a later one of the same key replaces, for one share of all keys.

        The first share is halved whenever it has too many keys; returns the number of shares in the end.
        """
        last_of_key: dict[bytes, int] = {}
        marks = self._superseded
        number = -1
        for batch in batches:
            header = read_header(batch)
            if header.base_offset >= self.bound:
                break
            if header.is_control or not header.record_count or self._is_aborted(header):
                continue
            for record in _keys(batch) or ():
                number += 1
                if record.key is None:
                    continue
                digest = blake2b(record.key, digest_size=_DIGEST_BYTES).digest()
                if shares > 1 and _share(digest, shares) != share:
                    continue
                before = last_of_key.get(digest)
                if before is not None:
                    byte, bit = divmod(before, 8)
                    if byte >= len(marks):
                        marks.extend(bytes(byte + 1 - len(marks)))
                    marks[byte] |= 1 << bit
                last_of_key[digest] = number
            while share == 0 and len(last_of_key) > self._max_keys:
                shares *= 2
                last_of_key = {
                    digest: at for digest, at in last_of_key.items() if _share(digest, shares) == 0
                }
        return shares

    # --- verdicts -------------------------------------------------------------------------------

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        firsts, lasts = self._aborted.get(header.producer_id, ([], []))
        index = bisect_right(firsts, header.base_offset) - 1
        return index >= 0 and header.base_offset < lasts[index]

    def _marker_stays(self, batch: Buffer, header: BatchHeader) -> bool:
        kept = self._kept_in_txn.pop(header.producer_id, None)
        if not _commits(batch):
            return True
        if kept is None:
            # Its records lie in older files, or went in an earlier merge.
            return not self._order.oldest
        return kept

    def _filter(
        self, batch: Buffer, header: BatchHeader, records: list[RecordKey], keep_empty: bool
    ) -> Buffer | None:
        expired = (
            self._order.oldest and header.has_delete_horizon and header.base_timestamp_ms <= self._now_ms
        )
        marks, number = self._superseded, self._record
        self._record += len(records)
        keep: list[bool] = []
        tombstones = 0
        for at, record in enumerate(records, number):
            stays = (
                record.key is not None
                and not (at >> 3 < len(marks) and marks[at >> 3] >> (at & 7) & 1)
                and not (record.is_tombstone and expired)
            )
            keep.append(stays)
            tombstones += stays and record.is_tombstone
        kept = sum(keep)
        self.records_removed += len(records) - kept
        if kept and header.is_transactional:
            self._kept_in_txn[header.producer_id] = True
        horizon_ms = None
        if tombstones and not header.has_delete_horizon:
            horizon_ms = self._now_ms + self._order.delete_retention_ms
        if kept == len(records) and horizon_ms is None:
            return batch
        return filter_batch(batch, keep, keep_empty=keep_empty, delete_horizon_ms=horizon_ms)


def _share(digest: bytes, shares: int) -> int:
    return int.from_bytes(digest[:8], "big") % shares


def _commits(batch: Buffer) -> bool:
    """Markers that cannot be read count as aborts: those stay."""
    try:
        return read_control(batch)
    except MainstemError:
        return False


def _keys(batch: Buffer) -> list[RecordKey] | None:
    """None when the records cannot be read: such a batch is kept as it is."""
    try:
        return record_keys(batch)
    except MainstemError:
        return None
