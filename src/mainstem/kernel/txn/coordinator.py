"""Who may do what in which transaction: the behaviour of Apache Kafka's coordinator, on one journal.

States: Empty, Ongoing, CompleteCommit, CompleteAbort. Ending is one frame, so nothing on disk is ever half
ended. Between `submitted` and `synced` of an Ending (or an Initialised) the transactional id is *pending*
and any further request for it is answered ConcurrentTransactions.

Identity: a transactional id belongs to one (producer id, epoch). Whoever asks with another is told
InvalidProducerIdMapping (wrong id) or ProducerFenced (wrong epoch); on the write path the latter is
InvalidProducerEpoch, which lets the client abort and go on. `last_*` is the identity the same producer had
before, which recognises its retries. A bump moves to epoch + 1; the highest epoch (32767) is used only
in markers, so a bump that reaches it moves to a new producer id with epoch 0.

Two transaction versions, by what the client sends:
1: partitions are announced, EndTxn keeps the epoch, and a late EndTxn can therefore hit a later transaction.
2: the first write to a partition adds it, and every EndTxn bumps the epoch, which closes that hole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from mainstem.kernel.txn.decisions import Added, Answered, Decision, Ending, Initialised, TxnInfo
from mainstem.kernel.txn.deltas import (
    CoordinatorDelta,
    ProducerIdsReserved,
    TxnAdded,
    TxnEnded,
    TxnForgotten,
    TxnInitialised,
)
from mainstem.kernel.txn.ids import ProducerIds
from mainstem.kernel.txn.table import Txn, TxnState, TxnTable
from mainstem.model.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerError,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)

MAX_TIMEOUT_MS: Final = 15 * 60 * 1000
IDLE_EXPIRY_MS: Final = 7 * 24 * 3600 * 1000
# The markers of all of them must fit into the one frame that ends the transaction.
MAX_PARTITIONS: Final = 50_000
LAST_CLIENT_EPOCH: Final = 2**15 - 2
NONE: Final = -1


class TransactionCoordinator:
    def __init__(self, max_timeout_ms: int = MAX_TIMEOUT_MS, idle_expiry_ms: int = IDLE_EXPIRY_MS) -> None:
        self._max_timeout_ms = max_timeout_ms
        self._idle_expiry_ms = idle_expiry_ms
        self._ids = ProducerIds()
        self._table = TxnTable()
        self._pending: set[str] = set()
        self._adding: dict[str, int] = {}  # transactional id -> Added decisions not yet synced

    # --- identity --------------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str | None,
        timeout_ms: int,
        expected_producer_id: int,
        expected_epoch: int,
        now_ms: int,
    ) -> Initialised | Ending:
        """A fresh or bumped identity; an Ending must be carried out first, then ask again.

        `expected_*` are -1 unless a running producer asks for a bump of the identity it has.
        """
        if (expected_producer_id == NONE) != (expected_epoch == NONE):
            raise InvalidRequest("producer id and epoch must be given together or not at all")
        if transactional_id is None:
            producer_id, reserved = self._ids.allocate()
            return Initialised(None, producer_id, 0, _and(reserved))
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        if not 0 < timeout_ms <= self._max_timeout_ms:
            raise InvalidTransactionTimeout(f"{timeout_ms} ms is not in 1..{self._max_timeout_ms}")
        txn = self._table.get(transactional_id)
        expected = (expected_producer_id, expected_epoch)
        if txn is None:
            return self._initialised(transactional_id, None, False, timeout_ms, now_ms)
        self._refuse_while_pending(transactional_id)
        asked_by_owner = expected_epoch != NONE
        is_retry = asked_by_owner and expected == (txn.last_producer_id, txn.last_epoch)
        if asked_by_owner and not is_retry and expected != (txn.producer_id, txn.epoch):
            raise _fenced(txn, expected_epoch)
        if txn.state is TxnState.ONGOING:
            if is_retry:  # its owner has long used the new identity: a stale copy of an old request
                raise _fenced(txn, expected_epoch)
            return self._ending(txn, False, now_ms, bump=True, keep_last=asked_by_owner)
        if is_retry:
            delta = TxnInitialised(
                transactional_id, txn.producer_id, txn.epoch, *expected, timeout_ms=timeout_ms, now_ms=now_ms
            )
            return Initialised(transactional_id, txn.producer_id, txn.epoch, (delta,))
        return self._initialised(transactional_id, txn, asked_by_owner, timeout_ms, now_ms)

    def _initialised(
        self, transactional_id: str, txn: Txn | None, keep_last: bool, timeout_ms: int, now_ms: int
    ) -> Initialised:
        deltas: list[CoordinatorDelta] = []
        if txn is None or txn.epoch >= LAST_CLIENT_EPOCH:
            producer_id, reserved = self._ids.allocate()
            deltas.extend(_and(reserved))
            epoch = 0
        else:
            producer_id, epoch = txn.producer_id, txn.epoch + 1
        last = (txn.producer_id, txn.epoch) if txn is not None and keep_last else (NONE, NONE)
        deltas.append(TxnInitialised(transactional_id, producer_id, epoch, *last, timeout_ms, now_ms))
        return Initialised(transactional_id, producer_id, epoch, tuple(deltas))

    # --- joining a transaction -------------------------------------------------------------------

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Collection[int], now_ms: int
    ) -> Added:
        """AddPartitionsToTxn: open the transaction if need be, and put these partitions in it."""
        txn = self._owned(transactional_id, producer_id, epoch)
        return self._added(txn, partitions, (), now_ms)

    def add_offsets(
        self, transactional_id: str, producer_id: int, epoch: int, group: str, now_ms: int
    ) -> Added:
        """AddOffsetsToTxn: offsets of this group will be committed in the transaction."""
        txn = self._owned(transactional_id, producer_id, epoch)
        return self._added(txn, (), (group,), now_ms)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[int]
    ) -> list[int]:
        """AddPartitionsToTxn with verify-only: those of `partitions` that are not in the transaction, to be
        answered TransactionAbortable."""
        txn = self._owned(transactional_id, producer_id, epoch)
        return [partition for partition in partitions if partition not in txn.partitions]

    # --- writing in a transaction ----------------------------------------------------------------

    def check_produce(
        self, transactional_id: str, producer_id: int, epoch: int, partition: int, abortable_known: bool
    ) -> None:
        """Version 1 clients: refuse a transactional batch for a partition that was not added.

        To be asked unless the partition already holds an open transaction of this producer.
        `abortable_known`: the client's request version knows TransactionAbortable.
        """
        txn = self._writing(transactional_id, producer_id, epoch)
        if partition not in txn.partitions:
            raise _not_in(f"partition {partition}", transactional_id, abortable_known)

    def ensure_partition(
        self, transactional_id: str, producer_id: int, epoch: int, partition: int, now_ms: int
    ) -> Added:
        """Version 2 clients: the first batch for a partition adds it. The deltas must precede the batch in
        the journal; sharing its sync costs nothing."""
        txn = self._writing(transactional_id, producer_id, epoch)
        return self._added(txn, (partition,), (), now_ms)

    def check_offset_commit(
        self, transactional_id: str, producer_id: int, epoch: int, group: str, abortable_known: bool
    ) -> None:
        """TxnOffsetCommit of version 1 clients: the group must have been added."""
        txn = self._writing(transactional_id, producer_id, epoch)
        if group not in txn.groups:
            raise _not_in(f"group {group!r}", transactional_id, abortable_known)

    def ensure_group(
        self, transactional_id: str, producer_id: int, epoch: int, group: str, now_ms: int
    ) -> Added:
        """TxnOffsetCommit of version 2 clients: the first commit for a group adds it."""
        txn = self._writing(transactional_id, producer_id, epoch)
        return self._added(txn, (), (group,), now_ms)

    # --- ending ----------------------------------------------------------------------------------

    def end_txn(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, bump: bool, now_ms: int
    ) -> Ending | Answered:
        """EndTxn. `bump`: a version 2 client (request version 5 and up), which gets a new epoch."""
        txn = self._known(transactional_id)
        if bump:
            return self._end_with_bump(txn, producer_id, epoch, commit, now_ms)
        if producer_id != txn.producer_id:
            raise _wrong_id(txn, producer_id)
        if epoch != txn.epoch:
            raise _fenced(txn, epoch)
        self._refuse_while_pending(transactional_id)
        if txn.state is TxnState.ONGOING:
            return self._ending(txn, commit, now_ms, bump=False, keep_last=False)
        if txn.state is (TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT):
            return Answered(txn.producer_id, txn.epoch)
        raise _wrong_state(txn, commit)

    def _end_with_bump(
        self, txn: Txn, producer_id: int, epoch: int, commit: bool, now_ms: int
    ) -> Ending | Answered:
        """The epoch tells a retry (the one before the bump) from the end of the next transaction.

        An abort is accepted even if nothing was written: that is how such a client fences its own late
        writes after an error. A retried commit that finds an abort lost against a timeout: fenced.
        """
        is_complete = txn.state in (TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
        is_retry = is_complete and (producer_id, epoch) == (txn.last_producer_id, txn.last_epoch)
        if not is_retry:
            if producer_id != txn.producer_id:
                raise _wrong_id(txn, producer_id)
            if epoch != txn.epoch:
                raise _fenced(txn, epoch)
        self._refuse_while_pending(txn.transactional_id)
        if is_retry:
            if commit == (txn.state is TxnState.COMPLETE_COMMIT):
                return Answered(txn.producer_id, txn.epoch)
            raise _fenced(txn, epoch) if commit else _wrong_state(txn, commit)
        if txn.state is TxnState.ONGOING or not commit:
            return self._ending(txn, commit, now_ms, bump=True, keep_last=True)
        raise _wrong_state(txn, commit)

    def _ending(self, txn: Txn, commit: bool, now_ms: int, *, bump: bool, keep_last: bool) -> Ending:
        """`keep_last`: the present owner may learn its next identity by asking again with this one."""
        deltas: list[CoordinatorDelta] = []
        producer_id, epoch = txn.producer_id, txn.epoch
        marker_epoch = epoch
        last = (producer_id, epoch) if bump and keep_last else (NONE, NONE)
        if bump:
            epoch = marker_epoch = epoch + 1
            if epoch > LAST_CLIENT_EPOCH:
                producer_id, reserved = self._ids.allocate()
                deltas.extend(_and(reserved))
                epoch = 0
        deltas.append(TxnEnded(txn.transactional_id, commit, producer_id, epoch, *last, now_ms))
        return Ending(
            txn.transactional_id,
            commit,
            txn.producer_id,
            marker_epoch,
            tuple(txn.partitions),
            tuple(txn.groups),
            producer_id,
            epoch,
            tuple(deltas),
        )

    # --- time ------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `expired` next has something to return."""
        return min((txn.start_ms + txn.timeout_ms + 1 for txn in self._table.ongoing()), default=None)

    def expired(self, now_ms: int) -> list[Ending]:
        """Aborts, with a bump that fences the owner, of transactions open beyond their timeout."""
        return [
            self._ending(txn, False, now_ms, bump=True, keep_last=True)
            for txn in self._table.ongoing()
            if txn.start_ms + txn.timeout_ms < now_ms and txn.transactional_id not in self._pending
        ]

    def ids(self) -> list[str]:
        return [txn.transactional_id for txn in self._table.all()]

    def idle(self, now_ms: int, transactional_ids: Iterable[str]) -> list[TxnForgotten]:
        """Those unused for `idle_expiry_ms`. Journal and `apply`; nobody waits for it. There may be many
        ids: ask about a few at a time."""
        return [
            TxnForgotten(txn.transactional_id)
            for txn in map(self._table.get, transactional_ids)
            if txn is not None
            and txn.state is not TxnState.ONGOING
            and txn.update_ms <= now_ms - self._idle_expiry_ms
            and txn.transactional_id not in self._pending
        ]

    # --- looking ---------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> TxnInfo:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        txn = self._table.get(transactional_id)
        if txn is None:
            raise TransactionalIdNotFound(transactional_id)
        return self._info(txn)

    def list_transactions(
        self,
        states: Collection[TxnState] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = NONE,
        now_ms: int = 0,
    ) -> Sequence[TxnInfo]:
        """An empty filter admits all; `longer_than_ms` keeps transactions that have been open so long."""
        return [
            info
            for info in map(self._info, self._table.all())
            if (not states or info.state in states)
            and (not producer_ids or info.producer_id in producer_ids)
            and (longer_than_ms < 0 or (info.start_ms >= 0 and now_ms - info.start_ms > longer_than_ms))
        ]

    def covers(self, producer_id: int, partition: int) -> bool:
        """Whether an open transaction of this producer will write its marker to this partition. False for
        one that a partition holds open means it hangs: the caller may abort it there."""
        txn = self._table.of_producer(producer_id)
        return txn is not None and partition in txn.partitions

    def open_count(self) -> int:
        """Transactions that have begun and not ended."""
        return len(self._table.ongoing())

    def __len__(self) -> int:
        return len(self._table)

    # --- state -----------------------------------------------------------------------------------

    def submitted(self, decision: Decision) -> None:
        """The decision's frame is in the journal's hands."""
        for delta in decision.deltas:
            self.apply(delta)
        name = decision.transactional_id
        if isinstance(decision, Added):
            self._adding[decision.transactional_id] = self._adding.get(decision.transactional_id, 0) + 1
        elif name is not None:
            self._pending.add(name)

    def synced(self, decision: Decision) -> None:
        """The decision's frame is on disk: now the client may be answered."""
        for delta in decision.deltas:
            if isinstance(delta, ProducerIdsReserved):
                self._ids.synced(delta)
        name = decision.transactional_id
        if isinstance(decision, Added):
            left = self._adding.pop(decision.transactional_id) - 1
            if left:
                self._adding[decision.transactional_id] = left
        elif name is not None:
            self._pending.discard(name)

    def apply(self, delta: CoordinatorDelta) -> None:
        """Replay of one delta, in journal order."""
        if isinstance(delta, ProducerIdsReserved):
            self._ids.apply(delta)
        else:
            self._table.apply(delta)

    def dump(self) -> Iterator[CoordinatorDelta]:
        return chain(self._ids.dump(), self._table.dump())

    # --- checks ----------------------------------------------------------------------------------

    def _known(self, transactional_id: str) -> Txn:
        if not transactional_id:
            raise InvalidRequest("the transactional id is empty")
        txn = self._table.get(transactional_id)
        if txn is None:
            raise InvalidProducerIdMapping(f"transactional id {transactional_id!r} is not known")
        return txn

    def _owned(self, transactional_id: str, producer_id: int, epoch: int) -> Txn:
        txn = self._known(transactional_id)
        if producer_id != txn.producer_id:
            raise _wrong_id(txn, producer_id)
        if epoch != txn.epoch:
            raise _fenced(txn, epoch)
        self._refuse_while_pending(transactional_id)
        return txn

    def _writing(self, transactional_id: str, producer_id: int, epoch: int) -> Txn:
        try:
            return self._owned(transactional_id, producer_id, epoch)
        except ProducerFenced as fenced:
            raise InvalidProducerEpoch(*fenced.args) from None

    def _refuse_while_pending(self, transactional_id: str) -> None:
        if transactional_id in self._pending:
            raise ConcurrentTransactions(f"transactional id {transactional_id!r} has a change under way")

    def _added(self, txn: Txn, partitions: Collection[int], groups: Collection[str], now_ms: int) -> Added:
        """No delta where all is in and on disk. While an earlier Added is not yet synced it is named again:
        an answer must not rest on a frame that is still on its way."""
        name = txn.transactional_id
        is_in = txn.partitions.keys() >= set(partitions) and txn.groups.keys() >= set(groups)
        if txn.state is TxnState.ONGOING and is_in and name not in self._adding:
            return Added(name, ())
        if not partitions and not groups:
            return Added(name, ())
        if (
            len(txn.partitions) + len(partitions) > MAX_PARTITIONS
            and len(txn.partitions.keys() | set(partitions)) > MAX_PARTITIONS
        ):
            raise InvalidTransactionState(f"a transaction takes at most {MAX_PARTITIONS} partitions")
        return Added(name, (TxnAdded(name, list(partitions), list(groups), now_ms),))

    def _info(self, txn: Txn) -> TxnInfo:
        state = txn.state
        if txn.transactional_id in self._pending:
            state = _ON_ITS_WAY.get(state, state)
        return TxnInfo(
            txn.transactional_id,
            state,
            txn.producer_id,
            txn.epoch,
            txn.timeout_ms,
            txn.start_ms,
            tuple(txn.partitions),
            tuple(txn.groups),
        )


_ON_ITS_WAY: Final = {
    TxnState.COMPLETE_COMMIT: TxnState.PREPARE_COMMIT,
    TxnState.COMPLETE_ABORT: TxnState.PREPARE_ABORT,
}


def _and(reserved: ProducerIdsReserved | None) -> tuple[CoordinatorDelta, ...]:
    return () if reserved is None else (reserved,)


def _wrong_id(txn: Txn, producer_id: int) -> InvalidProducerIdMapping:
    return InvalidProducerIdMapping(
        f"transactional id {txn.transactional_id!r} has producer {txn.producer_id}, not {producer_id}"
    )


def _fenced(txn: Txn, epoch: int) -> ProducerFenced:
    return ProducerFenced(f"transactional id {txn.transactional_id!r} is at epoch {txn.epoch}, not {epoch}")


def _wrong_state(txn: Txn, commit: bool) -> InvalidTransactionState:
    verb = "commit" if commit else "abort"
    return InvalidTransactionState(
        f"cannot {verb} {txn.transactional_id!r}: its state is {txn.state.value}, epoch {txn.epoch}"
    )


def _not_in(what: str, transactional_id: str, abortable_known: bool) -> ProducerError:
    error = TransactionAbortable if abortable_known else InvalidTransactionState
    return error(f"{what} is not in the transaction of {transactional_id!r}")
