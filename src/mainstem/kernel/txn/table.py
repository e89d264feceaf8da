"""Transactional ids and their state: what deltas build and snapshots hold. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, ValuesView
from enum import Enum

from mainstem.kernel.txn.deltas import TxnAdded, TxnDelta, TxnEnded, TxnForgotten, TxnInitialised
from mainstem.model.errors import StorageError


class TxnState(Enum):
    """Values are the names that clients see. Nothing is stored as Prepare*: a transaction is shown so while
    the frame that ends it is on its way to the disk. A dead id is simply not in the table."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Txn:
    """One transactional id. Fields as in the deltas; `start_ms` is -1 unless a transaction is open, and
    `update_ms` tells since when it is not."""

    __slots__ = (
        "epoch",
        "groups",
        "last_epoch",
        "last_producer_id",
        "partitions",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "update_ms",
    )

    def __init__(self, delta: TxnInitialised) -> None:
        self.transactional_id = delta.transactional_id
        self.partitions: dict[int, None] = {}  # a set that keeps its order, so that markers are predictable
        self.groups: dict[str, None] = {}
        self.initialise(delta)

    def initialise(self, delta: TxnInitialised) -> None:
        self.state = TxnState.EMPTY
        self.timeout_ms = delta.timeout_ms
        self._become(delta)

    def add(self, delta: TxnAdded) -> None:
        if self.state is not TxnState.ONGOING:
            self.state = TxnState.ONGOING
            self.start_ms = delta.now_ms
        self.partitions.update(dict.fromkeys(delta.partitions))
        self.groups.update(dict.fromkeys(delta.groups))

    def end(self, delta: TxnEnded) -> None:
        self.state = TxnState.COMPLETE_COMMIT if delta.commit else TxnState.COMPLETE_ABORT
        self._become(delta)

    def _become(self, delta: TxnInitialised | TxnEnded) -> None:
        self.producer_id = delta.producer_id
        self.epoch = delta.epoch
        self.last_producer_id = delta.last_producer_id
        self.last_epoch = delta.last_epoch
        self.update_ms = delta.now_ms
        self.start_ms = -1
        self.partitions.clear()
        self.groups.clear()

    def dump(self) -> Iterator[TxnDelta]:
        yield TxnInitialised(
            self.transactional_id,
            self.producer_id,
            self.epoch,
            self.last_producer_id,
            self.last_epoch,
            self.timeout_ms,
            self.update_ms,
        )
        if self.state is TxnState.ONGOING:
            yield TxnAdded(self.transactional_id, list(self.partitions), list(self.groups), self.start_ms)
        elif self.state is not TxnState.EMPTY:
            yield TxnEnded(
                self.transactional_id,
                self.state is TxnState.COMPLETE_COMMIT,
                self.producer_id,
                self.epoch,
                self.last_producer_id,
                self.last_epoch,
                self.update_ms,
            )


class TxnTable:
    def __init__(self) -> None:
        self._by_id: dict[str, Txn] = {}
        self._by_producer: dict[int, Txn] = {}
        self._ongoing: dict[str, Txn] = {}

    def get(self, transactional_id: str) -> Txn | None:
        return self._by_id.get(transactional_id)

    def of_producer(self, producer_id: int) -> Txn | None:
        return self._by_producer.get(producer_id)

    def all(self) -> ValuesView[Txn]:
        return self._by_id.values()

    def ongoing(self) -> ValuesView[Txn]:
        return self._ongoing.values()

    def __len__(self) -> int:
        return len(self._by_id)

    def apply(self, delta: TxnDelta) -> None:
        txn = self._by_id.get(delta.transactional_id)
        if txn is not None:
            self._by_producer.pop(txn.producer_id, None)
            self._ongoing.pop(txn.transactional_id, None)
        if isinstance(delta, TxnForgotten):
            self._by_id.pop(delta.transactional_id, None)
            return
        if isinstance(delta, TxnInitialised):
            if txn is None:
                txn = self._by_id[delta.transactional_id] = Txn(delta)
            else:
                txn.initialise(delta)
        elif txn is None:
            raise StorageError(f"{type(delta).__name__} for {delta.transactional_id!r}, which was never made")
        elif isinstance(delta, TxnAdded):
            txn.add(delta)
        else:
            txn.end(delta)
        self._by_producer[txn.producer_id] = txn
        if txn.state is TxnState.ONGOING:
            self._ongoing[txn.transactional_id] = txn

    def dump(self) -> Iterator[TxnDelta]:
        """May be taken in slices while the table changes, if the call is made in the turn that notes the
        journal position: replay from there converges, as each delta names the whole outcome. Ids forgotten
        in between are still given, because replay forgets them only at the end."""
        txns = list(self._by_id.values())
        return (delta for txn in txns for delta in list(txn.dump()))
