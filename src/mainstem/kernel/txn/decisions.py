"""What the coordinator decides: deltas to journal, and what the caller owes the client or the partitions.

Every decision goes the same way:

    decision = coordinator.end_txn(...)           # checks, changes nothing
    ticket = journal.submit(one frame with decision.deltas and what they need)
    coordinator.submitted(decision)               # memory is ahead of the disk from here
    ... ticket is synced ...
    coordinator.synced(decision)
    answer the client

If the journal fails the process ends, so there is no way back from `submitted`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from mainstem.kernel.txn.deltas import CoordinatorDelta
from mainstem.kernel.txn.table import TxnState


@dataclass(frozen=True, slots=True)
class Initialised:
    """Answer InitProducerId with this identity. No transactional id: a plain idempotent producer."""

    transactional_id: str | None
    producer_id: int
    epoch: int
    deltas: tuple[CoordinatorDelta, ...]


@dataclass(frozen=True, slots=True)
class Added:
    """Partitions or groups are in the transaction. No deltas: it is so on disk already, answer at once."""

    transactional_id: str
    deltas: tuple[CoordinatorDelta, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """End this transaction: one all-or-none frame with `deltas`, a marker (producer_id, marker_epoch, commit)
    for each of `partitions` that still exists, and the end of `producer_id`'s staged offsets in `groups`.

    As the outcome of InitProducerId it means: do this first, then ask again. As the outcome of EndTxn the
    answer is (next_producer_id, next_epoch).
    """

    transactional_id: str
    commit: bool
    producer_id: int
    marker_epoch: int
    partitions: tuple[int, ...]
    groups: tuple[str, ...]
    next_producer_id: int
    next_epoch: int
    deltas: tuple[CoordinatorDelta, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A retry of what is already on disk: answer success with this identity, write nothing."""

    producer_id: int
    epoch: int


Decision: TypeAlias = Initialised | Added | Ending


class TxnInfo(NamedTuple):
    """One row of DescribeTransactions and ListTransactions; `start_ms` is -1 without an open transaction."""

    transactional_id: str
    state: TxnState
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[int, ...]
    groups: tuple[str, ...]
