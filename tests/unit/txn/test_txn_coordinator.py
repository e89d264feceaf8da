"""The coordinator rule by rule, as literal histories."""

import msgspec
import pytest

from mainstem.kernel.log.entries import BatchEntry, pack_atomic
from mainstem.kernel.log.journal import NewPlace
from mainstem.kernel.txn.coordinator import (
    IDLE_EXPIRY_MS,
    MAX_PARTITIONS,
    MAX_TIMEOUT_MS,
    TransactionCoordinator,
)
from mainstem.kernel.txn.decisions import Answered, Ending, Initialised
from mainstem.kernel.txn.deltas import CoordinatorDelta, TxnAdded, TxnInitialised
from mainstem.kernel.txn.table import TxnState
from mainstem.model.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    StorageError,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from mainstem.model.records import control_batch


class Desk:
    """A coordinator whose journal syncs at once, for histories that need no gap between the two."""

    def __init__(self) -> None:
        self.core = TransactionCoordinator()
        self.now_ms = 1_000
        self.journal: list[CoordinatorDelta] = []

    def done(self, decision):
        if not isinstance(decision, Answered):
            self.journal += decision.deltas
            self.core.submitted(decision)
            self.core.synced(decision)
        return decision

    def init(self, name="t", pid=-1, epoch=-1, timeout_ms=60_000):
        """The identity a client that waits out ConcurrentTransactions ends up with."""
        decision = self.done(self.core.init_producer_id(name, timeout_ms, pid, epoch, self.now_ms))
        if isinstance(decision, Ending):
            decision = self.done(self.core.init_producer_id(name, timeout_ms, pid, epoch, self.now_ms))
        return decision.producer_id, decision.epoch

    def add(self, pid, epoch, *partitions, name="t"):
        return self.done(self.core.add_partitions(name, pid, epoch, partitions, self.now_ms))

    def end(self, pid, epoch, commit=True, bump=False, name="t"):
        return self.done(self.core.end_txn(name, pid, epoch, commit, bump, self.now_ms))

    def state(self, name="t"):
        return self.core.describe(name).state

    def at_epoch(self, epoch, name="t"):
        """An id that has used up its epochs to here."""
        pid, _ = self.init(name)
        self.core.apply(TxnInitialised(name, pid, epoch, -1, -1, 60_000, self.now_ms))
        return pid


# --- identity --------------------------------------------------------------------------------------


def test_a_plain_idempotent_producer_gets_a_fresh_id_each_time():
    desk = Desk()
    assert [desk.init(None), desk.init(None), desk.init(None, 0, 0)] == [(0, 0), (1, 0), (2, 0)]


def test_a_transactional_id_keeps_its_producer_id_and_bumps_its_epoch():
    desk = Desk()
    assert [desk.init(), desk.init(), desk.init("other"), desk.init()] == [(0, 0), (0, 1), (1, 0), (0, 2)]


@pytest.mark.parametrize("timeout_ms", [0, -1, MAX_TIMEOUT_MS + 1])
def test_a_timeout_outside_the_limits_is_refused(timeout_ms):
    with pytest.raises(InvalidTransactionTimeout):
        Desk().init(timeout_ms=timeout_ms)


def test_an_empty_transactional_id_and_half_an_identity_make_no_sense():
    desk = Desk()
    with pytest.raises(InvalidRequest):
        desk.init("")
    with pytest.raises(InvalidRequest):
        desk.init("t", pid=3)
    with pytest.raises(InvalidRequest):
        desk.add(0, 0, 1, name="")
    with pytest.raises(InvalidRequest):
        desk.core.describe("")


def test_a_running_producer_bumps_its_own_epoch_and_a_retry_gets_the_same_answer():
    desk = Desk()
    pid, epoch = desk.init()
    assert desk.init("t", pid, epoch) == (pid, 1)
    assert desk.init("t", pid, epoch) == (pid, 1)
    assert desk.init("t", pid, 1) == (pid, 2)


def test_a_producer_replaced_by_a_new_instance_cannot_bump():
    desk = Desk()
    pid, epoch = desk.init()
    desk.init()
    with pytest.raises(ProducerFenced):
        desk.init("t", pid, epoch)


def test_an_expected_identity_of_an_unknown_transactional_id_gets_a_new_one():
    assert Desk().init("t", 77, 5) == (0, 0)


def test_init_aborts_the_open_transaction_with_a_fencing_epoch_and_asks_to_come_again():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4, 5)
    ending = desk.core.init_producer_id("t", 60_000, -1, -1, desk.now_ms)
    assert isinstance(ending, Ending)
    assert (ending.commit, ending.producer_id, ending.marker_epoch) == (False, pid, 1)
    assert ending.partitions == (4, 5)
    desk.core.submitted(ending)
    with pytest.raises(ConcurrentTransactions):
        desk.core.init_producer_id("t", 60_000, -1, -1, desk.now_ms)
    desk.core.synced(ending)
    assert desk.init() == (pid, 2)
    for stale in (0, 1):
        with pytest.raises(ProducerFenced):
            desk.end(pid, stale, bump=True)
        with pytest.raises(ProducerFenced):
            desk.end(pid, stale)


def test_the_owner_may_ask_for_a_bump_with_its_own_transaction_open():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    assert desk.init("t", pid, epoch) == (pid, 1)


def test_a_stale_copy_of_a_bump_request_does_not_abort_the_next_transaction():
    desk = Desk()
    pid, epoch = desk.init()
    desk.init("t", pid, epoch)
    desk.add(pid, 1, 4)
    with pytest.raises(ProducerFenced):
        desk.init("t", pid, epoch)
    assert desk.state() is TxnState.ONGOING


def test_a_second_init_while_the_first_is_not_synced_is_concurrent():
    desk = Desk()
    first = desk.core.init_producer_id("t", 60_000, -1, -1, 0)
    desk.core.submitted(first)
    with pytest.raises(ConcurrentTransactions):
        desk.core.init_producer_id("t", 60_000, -1, -1, 0)
    desk.core.synced(first)
    assert desk.init() == (0, 1)


def test_exhausted_epochs_move_to_a_new_producer_id():
    desk = Desk()
    pid = desk.at_epoch(32765)
    assert desk.init() == (pid, 32766)
    assert desk.init() == (pid + 1, 0)


def test_a_retried_bump_across_the_exhaustion_gets_the_new_producer_id():
    desk = Desk()
    pid = desk.at_epoch(32766)
    assert desk.init("t", pid, 32766) == (pid + 1, 0)
    assert desk.init("t", pid, 32766) == (pid + 1, 0)


def test_a_retried_bump_to_the_last_epoch_does_not_rotate():
    desk = Desk()
    pid = desk.at_epoch(32765)
    assert desk.init("t", pid, 32765) == (pid, 32766)
    assert desk.init("t", pid, 32765) == (pid, 32766)


# --- joining ---------------------------------------------------------------------------------------


def test_adding_a_partition_opens_the_transaction_and_adding_it_again_writes_nothing():
    desk = Desk()
    pid, epoch = desk.init()
    assert desk.add(pid, epoch, 4, 5).deltas == (TxnAdded("t", [4, 5], [], 1_000),)
    assert desk.state() is TxnState.ONGOING
    assert desk.add(pid, epoch, 5).deltas == ()
    assert desk.add(pid, epoch).deltas == ()
    assert desk.core.describe("t").partitions == (4, 5)


def test_adding_again_before_the_first_is_synced_names_it_again():
    desk = Desk()
    pid, epoch = desk.init()
    first = desk.core.add_partitions("t", pid, epoch, [4], 0)
    desk.core.submitted(first)
    second = desk.core.add_partitions("t", pid, epoch, [4], 0)
    assert second.deltas == first.deltas
    desk.core.submitted(second)
    desk.core.synced(first)
    assert desk.core.add_partitions("t", pid, epoch, [4], 0).deltas
    desk.core.synced(second)
    assert desk.core.add_partitions("t", pid, epoch, [4], 0).deltas == ()


def test_strangers_cannot_join():
    desk = Desk()
    with pytest.raises(InvalidProducerIdMapping):
        desk.add(0, 0, 4)
    pid, epoch = desk.init()
    with pytest.raises(InvalidProducerIdMapping):
        desk.add(pid + 1, epoch, 4)
    with pytest.raises(ProducerFenced):
        desk.add(pid, epoch + 1, 4)
    with pytest.raises(ProducerFenced):
        desk.add(pid, epoch - 1, 4)


def test_a_group_alone_opens_a_transaction_and_is_named_at_its_end():
    desk = Desk()
    pid, epoch = desk.init()
    desk.done(desk.core.add_offsets("t", pid, epoch, "g", 0))
    ending = desk.end(pid, epoch)
    assert (ending.partitions, ending.groups) == ((), ("g",))


def test_verify_tells_which_partitions_are_not_in_and_adds_none():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    assert desk.core.verify_partitions("t", pid, epoch, [3, 4, 5]) == [3, 5]
    assert desk.core.describe("t").partitions == (4,)


# --- writing ---------------------------------------------------------------------------------------


def test_a_batch_for_a_partition_not_added_is_refused_as_the_client_understands_it():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    desk.core.check_produce("t", pid, epoch, 4, True)
    with pytest.raises(TransactionAbortable):
        desk.core.check_produce("t", pid, epoch, 5, True)
    with pytest.raises(InvalidTransactionState):
        desk.core.check_produce("t", pid, epoch, 5, False)


def test_a_batch_after_the_end_is_refused():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    desk.end(pid, epoch)
    with pytest.raises(TransactionAbortable):
        desk.core.check_produce("t", pid, epoch, 4, True)


def test_a_fenced_writer_hears_of_its_epoch():
    desk = Desk()
    pid, epoch = desk.init()
    desk.init()
    for call in (
        lambda: desk.core.check_produce("t", pid, epoch, 4, True),
        lambda: desk.core.ensure_partition("t", pid, epoch, 4, 0),
        lambda: desk.core.check_offset_commit("t", pid, epoch, "g", True),
        lambda: desk.core.ensure_group("t", pid, epoch, "g", 0),
    ):
        with pytest.raises(InvalidProducerEpoch):
            call()


def test_the_first_batch_of_a_version_2_client_adds_its_partition_once():
    desk = Desk()
    pid, epoch = desk.init()
    assert desk.done(desk.core.ensure_partition("t", pid, epoch, 4, 7)).deltas
    assert desk.core.ensure_partition("t", pid, epoch, 4, 8).deltas == ()
    assert desk.core.describe("t").start_ms == 7


def test_offsets_of_a_group_need_it_in_the_transaction():
    desk = Desk()
    pid, epoch = desk.init()
    with pytest.raises(TransactionAbortable):
        desk.core.check_offset_commit("t", pid, epoch, "g", True)
    with pytest.raises(InvalidTransactionState):
        desk.core.check_offset_commit("t", pid, epoch, "g", False)
    desk.done(desk.core.ensure_group("t", pid, epoch, "g", 0))
    desk.core.check_offset_commit("t", pid, epoch, "g", True)


# --- ending, version 1 -----------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_version_1_end_keeps_the_identity_and_may_be_retried(commit):
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    ending = desk.end(pid, epoch, commit)
    assert (ending.commit, ending.marker_epoch, ending.partitions) == (commit, epoch, (4,))
    assert (ending.next_producer_id, ending.next_epoch) == (pid, epoch)
    assert desk.end(pid, epoch, commit) == Answered(pid, epoch)
    with pytest.raises(InvalidTransactionState):
        desk.end(pid, epoch, not commit)


def test_a_version_1_end_of_nothing_is_refused():
    desk = Desk()
    pid, epoch = desk.init()
    for commit in (True, False):
        with pytest.raises(InvalidTransactionState):
            desk.end(pid, epoch, commit)


def test_ends_of_strangers_are_refused():
    desk = Desk()
    for bump in (True, False):
        with pytest.raises(InvalidProducerIdMapping):
            desk.end(0, 0, bump=bump, name="nobody")
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    for bump in (True, False):
        with pytest.raises(InvalidProducerIdMapping):
            desk.end(pid + 1, epoch, bump=bump)
        with pytest.raises(ProducerFenced):
            desk.end(pid, epoch + 1, bump=bump)


@pytest.mark.parametrize("bump", [True, False])
def test_all_is_concurrent_while_the_end_is_on_its_way_to_the_disk(bump):
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    ending = desk.core.end_txn("t", pid, epoch, True, bump, 0)
    desk.core.submitted(ending)
    assert desk.state() is TxnState.PREPARE_COMMIT
    with pytest.raises(ConcurrentTransactions):
        desk.core.end_txn("t", pid, epoch, True, bump, 0)
    with pytest.raises(ConcurrentTransactions):
        desk.core.add_partitions("t", ending.next_producer_id, ending.next_epoch, [4], 0)
    with pytest.raises(ConcurrentTransactions):
        desk.core.check_produce("t", ending.next_producer_id, ending.next_epoch, 4, True)
    desk.core.synced(ending)
    assert desk.state() is TxnState.COMPLETE_COMMIT
    assert desk.end(pid, epoch, bump=bump) == Answered(ending.next_producer_id, ending.next_epoch)


# --- ending, version 2 -----------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_version_2_end_bumps_the_epoch_and_its_retry_gets_the_same_answer(commit):
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    ending = desk.end(pid, epoch, commit, bump=True)
    assert (ending.producer_id, ending.marker_epoch) == (pid, epoch + 1)
    assert (ending.next_producer_id, ending.next_epoch) == (pid, epoch + 1)
    assert desk.end(pid, epoch, commit, bump=True) == Answered(pid, epoch + 1)


def test_a_late_end_of_an_earlier_transaction_cannot_touch_the_next():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    desk.end(pid, epoch, commit=False, bump=True)
    desk.add(pid, epoch + 1, 4)
    for commit in (True, False):
        with pytest.raises(ProducerFenced):
            desk.end(pid, epoch, commit, bump=True)
    assert desk.state() is TxnState.ONGOING


def test_a_version_2_retry_with_the_other_outcome_is_refused():
    desk = Desk()
    pid, _ = desk.init()
    desk.add(pid, 0, 4)
    desk.end(pid, 0, commit=True, bump=True)
    with pytest.raises(InvalidTransactionState):
        desk.end(pid, 0, commit=False, bump=True)
    desk.add(pid, 1, 4)
    desk.end(pid, 1, commit=False, bump=True)
    with pytest.raises(ProducerFenced):
        desk.end(pid, 1, commit=True, bump=True)


def test_a_version_2_client_may_abort_nothing_but_not_commit_it():
    desk = Desk()
    pid, _ = desk.init()
    with pytest.raises(InvalidTransactionState):
        desk.end(pid, 0, commit=True, bump=True)
    assert desk.end(pid, 0, commit=False, bump=True).next_epoch == 1
    with pytest.raises(InvalidTransactionState):
        desk.end(pid, 1, commit=True, bump=True)
    ending = desk.end(pid, 1, commit=False, bump=True)
    assert (ending.partitions, ending.next_epoch) == ((), 2)


def test_a_version_2_end_at_the_last_epoch_moves_to_a_new_producer_id():
    desk = Desk()
    pid = desk.at_epoch(32766)
    desk.add(pid, 32766, 4)
    ending = desk.end(pid, 32766, bump=True)
    assert (ending.producer_id, ending.marker_epoch) == (pid, 32767)
    assert (ending.next_producer_id, ending.next_epoch) == (pid + 1, 0)
    assert desk.end(pid, 32766, bump=True) == Answered(pid + 1, 0)
    with pytest.raises(InvalidProducerIdMapping):
        desk.add(pid, 32766, 4)


# --- time ------------------------------------------------------------------------------------------


def test_an_overdue_transaction_is_aborted_with_a_fencing_epoch():
    desk = Desk()
    assert desk.core.next_deadline_ms() is None
    pid, epoch = desk.init(timeout_ms=500)
    desk.add(pid, epoch, 4)
    assert desk.core.next_deadline_ms() == 1_501
    assert desk.core.expired(1_500) == []
    [ending] = desk.core.expired(1_501)
    assert (ending.commit, ending.marker_epoch, ending.partitions) == (False, epoch + 1, (4,))
    desk.core.submitted(ending)
    assert desk.core.expired(9_999) == []
    desk.core.synced(ending)
    with pytest.raises(ProducerFenced):
        desk.end(pid, epoch)
    with pytest.raises(ProducerFenced):
        desk.end(pid, epoch, bump=True)


def test_the_owner_of_a_timed_out_transaction_can_go_on_with_the_next_epoch():
    desk = Desk()
    pid, epoch = desk.init(timeout_ms=500)
    desk.add(pid, epoch, 4)
    [ending] = desk.core.expired(9_999)
    desk.done(ending)
    assert desk.end(pid, epoch, commit=False, bump=True) == Answered(pid, epoch + 1)
    assert desk.init("t", pid, epoch) == (pid, epoch + 1)


def test_a_timeout_at_the_last_epoch_moves_to_a_new_producer_id():
    desk = Desk()
    pid = desk.at_epoch(32766)
    desk.add(pid, 32766, 4)
    [ending] = desk.core.expired(10**9)
    desk.done(ending)
    assert (ending.marker_epoch, ending.next_producer_id, ending.next_epoch) == (32767, pid + 1, 0)
    assert desk.init() == (pid + 1, 1)


def test_adding_more_does_not_extend_the_deadline():
    desk = Desk()
    pid, epoch = desk.init(timeout_ms=500)
    desk.add(pid, epoch, 4)
    desk.now_ms = 1_400
    desk.add(pid, epoch, 5)
    assert desk.core.next_deadline_ms() == 1_501


def test_idle_transactional_ids_are_forgotten_but_open_ones_are_not():
    desk = Desk()
    pid, epoch = desk.init()
    open_pid, open_epoch = desk.init("open")
    desk.add(open_pid, open_epoch, 4, name="open")
    later = desk.now_ms + IDLE_EXPIRY_MS
    assert desk.core.idle(later - 1, desk.core.ids()) == []
    [delta] = desk.core.idle(later, desk.core.ids())
    desk.core.apply(delta)
    assert len(desk.core) == 1
    with pytest.raises(InvalidProducerIdMapping):
        desk.end(pid, epoch)
    with pytest.raises(TransactionalIdNotFound):
        desk.core.describe("t")


# --- looking ---------------------------------------------------------------------------------------


def test_transactions_are_listed_by_state_producer_and_age():
    desk = Desk()
    a, _ = desk.init("a")
    b, _ = desk.init("b")
    desk.add(b, 0, 4, name="b")

    def names(**filters):
        return [info.transactional_id for info in desk.core.list_transactions(**filters)]

    assert names() == ["a", "b"]
    assert names(states=[TxnState.ONGOING]) == ["b"]
    assert names(producer_ids=[a]) == ["a"]
    assert names(longer_than_ms=100, now_ms=1_101) == ["b"]
    assert names(longer_than_ms=100, now_ms=1_100) == []


def test_a_partition_left_open_by_nobody_is_recognised():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, 4)
    assert desk.core.covers(pid, 4)
    assert not desk.core.covers(pid, 5)
    assert not desk.core.covers(99, 4)
    desk.end(pid, epoch)
    assert not desk.core.covers(pid, 4)


# --- replay ----------------------------------------------------------------------------------------


def rebuilt(deltas):
    core = TransactionCoordinator()
    for delta in deltas:
        core.apply(msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=CoordinatorDelta))
    return core


def varied():
    desk = Desk()
    desk.init("empty")
    for name, commit in (("committed", True), ("aborted", False)):
        pid, epoch = desk.init(name)
        desk.add(pid, epoch, 1, 2, name=name)
        desk.end(pid, epoch, commit, bump=True, name=name)
    pid, epoch = desk.init("open")
    desk.add(pid, epoch, 3, name="open")
    desk.now_ms += 50
    desk.add(pid, epoch, 4, name="open")
    desk.done(desk.core.add_offsets("open", pid, epoch, "g", desk.now_ms))
    return desk


def test_the_journal_and_the_dump_rebuild_the_same_coordinator():
    desk = varied()
    expected = desk.core.list_transactions()
    assert rebuilt(desk.journal).list_transactions() == expected
    copy = rebuilt(desk.core.dump())
    assert copy.list_transactions() == expected
    assert list(copy.dump()) == list(desk.core.dump())


def test_replaying_onto_a_newer_dump_converges():
    desk = varied()
    copy = rebuilt([*desk.core.dump(), *desk.journal])
    assert copy.list_transactions() == desk.core.list_transactions()


def test_an_end_that_was_answered_is_still_answered_after_a_restart():
    desk = varied()
    copy = rebuilt(desk.journal)
    pid = copy.describe("committed").producer_id
    assert copy.end_txn("committed", pid, 0, True, True, 0) == Answered(pid, 1)


def test_an_open_transaction_times_out_after_a_restart_too():
    copy = rebuilt(varied().journal)
    [ending] = copy.expired(10**9)
    assert (ending.partitions, ending.groups) == ((3, 4), ("g",))


def test_new_ids_after_a_restart_are_fresh():
    desk = varied()
    used = {info.producer_id for info in desk.core.list_transactions()}
    decision = rebuilt(desk.journal).init_producer_id("new", 1, -1, -1, 0)
    assert isinstance(decision, Initialised)
    assert decision.producer_id not in used


def test_a_journal_that_adds_to_an_unknown_transaction_is_not_believed():
    with pytest.raises(StorageError):
        rebuilt([TxnAdded("ghost", [1], [], 0)])


def test_a_transaction_takes_no_more_partitions_than_one_frame_can_end():
    desk = Desk()
    pid, epoch = desk.init()
    desk.add(pid, epoch, *range(MAX_PARTITIONS))
    desk.add(pid, epoch, *range(MAX_PARTITIONS))
    with pytest.raises(InvalidTransactionState):
        desk.add(pid, epoch, MAX_PARTITIONS)
    batch = control_batch(1 << 40, pid, epoch, True, 1 << 41, 0, 0)
    pack_atomic([BatchEntry(1, batch, NewPlace(1, 0, 0, 0, len(batch)))] * MAX_PARTITIONS)
