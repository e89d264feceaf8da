"""Producer state of one partition, rule by rule, as literal histories."""

import msgspec
import pytest

from mainstem.kernel.txn import producers
from mainstem.kernel.txn.deltas import PartitionProducersState
from mainstem.kernel.txn.producers import DEFAULT_EXPIRY_MS, PartitionProducers
from mainstem.model.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    OutOfOrderSequence,
    PolicyViolation,
)

MAX_SEQUENCE = 2**31 - 1


class Log:
    """A partition that assigns offsets, so that histories read as (producer, sequence, count)."""

    def __init__(self) -> None:
        self.state = PartitionProducers()
        self.end = 0
        self.now_ms = 1_000

    def send(self, pid, sequence, count=1, epoch=0, txn=False, strict=False):
        """The base offset the producer is told."""
        old = self.state.check(pid, epoch, sequence, count, txn, self.now_ms, strict)
        if old is not None:
            return old
        base = self.end
        self.state.appended(pid, epoch, sequence, count, base, txn, self.now_ms)
        self.end += count
        return base

    def mark(self, pid, commit, epoch=0):
        self.state.ended(pid, epoch, commit, self.end, self.now_ms)
        self.end += 1
        return self.end - 1

    def plain(self, count=1):
        self.end += count


def test_batches_in_sequence_are_appended():
    log = Log()
    assert [log.send(7, 0, 3), log.send(7, 3, 2), log.send(7, 5)] == [0, 3, 5]


def test_each_of_the_last_five_batches_is_answered_with_its_first_offset():
    log = Log()
    for i in range(7):
        log.send(7, i * 2, 2)
    assert [log.send(7, i * 2, 2) for i in range(2, 7)] == [4, 6, 8, 10, 12]
    assert log.end == 14


def test_a_duplicate_older_than_the_window_is_named_so():
    log = Log()
    for i in range(7):
        log.send(7, i * 2, 2)
    with pytest.raises(DuplicateSequence):
        log.send(7, 2, 2)


def test_a_retry_with_other_bounds_inside_the_window_is_out_of_order():
    log = Log()
    log.send(7, 0, 4)
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 0, 2)
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 2, 4)


def test_a_sequence_from_before_the_first_known_batch_is_not_called_a_duplicate():
    log = Log()
    log.send(7, 100)
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 99)


def test_a_gap_is_refused_and_changes_nothing():
    log = Log()
    log.send(7, 0)
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 2)
    assert log.send(7, 1) == 1


def test_an_unknown_producer_may_start_at_any_sequence():
    log = Log()
    assert log.send(7, 42) == 0
    assert log.send(7, 43) == 1


def test_an_unknown_transactional_producer_with_an_epoch_per_transaction_starts_at_zero():
    log = Log()
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 42, txn=True, strict=True)
    assert log.send(7, 0, txn=True, strict=True) == 0


def test_a_new_epoch_starts_at_zero():
    log = Log()
    log.send(7, 0, 10)
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 10, epoch=1)
    assert log.send(7, 0, epoch=1) == 10
    assert log.send(7, 1, epoch=1) == 11


def test_an_old_epoch_is_refused_even_if_its_sequence_fits():
    log = Log()
    log.send(7, 0, epoch=3)
    with pytest.raises(InvalidProducerEpoch):
        log.send(7, 1, epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        log.send(7, 0, epoch=2)


def test_a_batch_of_an_earlier_epoch_is_no_duplicate_of_the_new_one():
    log = Log()
    log.send(7, 0)
    assert log.send(7, 0, epoch=1) == 1


def test_sequences_wrap_to_zero_inside_a_batch_and_between_batches():
    log = Log()
    log.send(7, MAX_SEQUENCE - 1, 2)
    assert log.send(7, 0) == 2
    log.send(8, MAX_SEQUENCE, 3)
    assert log.send(8, 2) == 6
    assert log.send(8, MAX_SEQUENCE, 3) == 3


def test_duplicates_are_found_across_the_wrap():
    log = Log()
    for _ in range(2):
        assert log.send(7, MAX_SEQUENCE - 1, 2) == 0
    for i in range(5):
        log.send(7, i)
    with pytest.raises(DuplicateSequence):
        log.send(7, MAX_SEQUENCE - 1, 2)


def test_negative_epochs_and_sequences_are_invalid_records():
    log = Log()
    with pytest.raises(InvalidRecord):
        log.send(7, -1)
    with pytest.raises(InvalidRecord):
        log.send(7, 0, epoch=-1)


def test_batches_without_a_producer_id_leave_no_trace():
    log = Log()
    assert log.send(-1, -1, epoch=-1) == 0
    assert log.send(-1, -1, epoch=-1) == 1
    assert log.state.is_empty()


def test_producers_do_not_disturb_each_other():
    log = Log()
    assert [log.send(7, 0), log.send(8, 0), log.send(7, 1), log.send(8, 1)] == [0, 1, 2, 3]


# --- expiry and bounds -----------------------------------------------------------------------------


def test_an_idle_producer_is_forgotten_after_a_day_and_may_go_on_anywhere():
    log = Log()
    log.send(7, 0)
    log.now_ms += DEFAULT_EXPIRY_MS - 1
    assert log.state.expire(log.now_ms) == 0
    log.now_ms += 1
    assert log.state.expire(log.now_ms) == 1
    assert log.state.is_empty()
    assert log.send(7, 42) == 1


def test_an_idle_producer_counts_as_unknown_even_before_the_sweep():
    log = Log()
    log.send(7, 0, 10)
    log.now_ms += DEFAULT_EXPIRY_MS
    assert log.send(7, 500) == 10
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 0, 5)


def test_an_open_transaction_never_expires():
    log = Log()
    log.send(7, 0, txn=True)
    log.now_ms += 2 * DEFAULT_EXPIRY_MS
    assert log.state.expire(log.now_ms) == 0
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 5, txn=True)


def test_where_there_are_many_the_idle_ones_are_forgotten_and_the_busy_ones_and_open_transactions_kept(
    monkeypatch,
):
    monkeypatch.setattr(producers, "MANY_PRODUCERS", 20)
    log = Log()
    log.state = PartitionProducers()
    log.send(0, 0, txn=True)
    for pid in range(1, 100):
        log.now_ms += producers.IDLE_MS // 30
        log.send(pid, 0)
    assert len(log.state) <= 35
    assert log.state.is_open(0)
    assert [log.state.epoch_of(pid) for pid in range(70, 100)] == [0] * 30


def test_no_busy_producer_is_forgotten_however_many_there_are():
    log = Log()
    first = [log.send(pid, 0) for pid in range(6_000)]
    assert [log.send(pid, 0) for pid in range(6_000)] == first, "each is a repetition"
    with pytest.raises(OutOfOrderSequence):
        log.send(17, 5)


def test_a_producer_too_many_is_refused_until_others_are_idle(monkeypatch):
    monkeypatch.setattr(producers, "MAX_PRODUCERS", 20)
    log = Log()
    for pid in range(20):
        log.send(pid, 0)
    with pytest.raises(PolicyViolation, match="20 producers"):
        log.send(20, 0)
    log.send(3, 1)
    log.now_ms += producers.IDLE_MS
    log.send(20, 0)
    assert len(log.state) == 1


# --- transactions ----------------------------------------------------------------------------------


def test_the_last_stable_offset_stops_at_the_first_open_transaction():
    log = Log()
    log.plain(5)
    assert log.state.last_stable_offset(5) == 5
    log.send(7, 0, 2, txn=True)
    log.send(8, 0, txn=True)
    assert log.state.last_stable_offset(log.end) == 5
    log.mark(7, commit=True)
    assert log.state.last_stable_offset(log.end) == 7
    log.mark(8, commit=True)
    assert log.state.last_stable_offset(log.end) == log.end


def test_the_last_stable_offset_never_exceeds_the_high_watermark():
    log = Log()
    log.plain(5)
    log.send(7, 0, txn=True)
    assert log.state.last_stable_offset(3) == 3


def test_an_ended_transaction_holds_the_stable_offset_until_its_marker_is_synced():
    log = Log()
    log.send(7, 0, 3, txn=True)
    marker = log.mark(7, commit=True)
    assert log.state.last_stable_offset(marker) == 0
    assert log.state.last_stable_offset(marker + 1) == marker + 1


def test_a_plain_batch_inside_an_open_transaction_is_refused():
    log = Log()
    log.send(7, 0, txn=True)
    with pytest.raises(InvalidTransactionState):
        log.send(7, 1)
    log.mark(7, commit=True)
    assert log.send(7, 1) == 2


def test_a_duplicate_inside_a_transaction_is_answered_after_its_end_too():
    log = Log()
    log.send(7, 0, txn=True)
    log.mark(7, commit=True)
    assert log.send(7, 0, txn=True) == 0
    assert not log.state.is_open(7)


def test_a_marker_with_a_higher_epoch_fences_the_old_one_and_restarts_sequences():
    log = Log()
    log.send(7, 0, 5, txn=True)
    log.mark(7, commit=False, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        log.send(7, 5, txn=True)
    with pytest.raises(OutOfOrderSequence):
        log.send(7, 5, epoch=1, txn=True)
    assert log.send(7, 0, epoch=1, txn=True) == 6


def test_a_marker_without_data_fences_but_lists_no_aborted_transaction():
    log = Log()
    log.mark(7, commit=False, epoch=4)
    assert log.state.aborted_between(0, 10) == []
    with pytest.raises(InvalidProducerEpoch):
        log.send(7, 0, epoch=3, txn=True)


def test_aborted_transactions_are_listed_where_they_overlap_the_range():
    log = Log()
    log.send(7, 0, 2, txn=True)  # 0, 1
    log.send(8, 0, 2, txn=True)  # 2, 3
    log.mark(8, commit=False)  # 4
    log.send(8, 2, txn=True)  # 5
    log.mark(7, commit=False)  # 6
    log.mark(8, commit=True)  # 7
    assert log.state.aborted_between(0, 8) == [(7, 0), (8, 2)]
    assert log.state.aborted_between(0, 1) == [(7, 0)]
    assert log.state.aborted_between(0, 2) == [(7, 0)]
    assert log.state.aborted_between(4, 5) == [(7, 0), (8, 2)]
    assert log.state.aborted_between(5, 8) == [(7, 0)]
    assert log.state.aborted_between(7, 8) == []


def test_one_producer_can_have_many_aborted_transactions():
    log = Log()
    for i in range(3):
        log.send(7, i, txn=True)
        log.mark(7, commit=False)
    assert log.state.aborted_between(0, 6) == [(7, 0), (7, 2), (7, 4)]
    assert log.state.aborted_between(2, 4) == [(7, 2)]


def test_trim_drops_aborted_transactions_that_ended_before_the_log_starts():
    log = Log()
    for i in range(3):
        log.send(7, i, txn=True)
        log.mark(7, commit=False)
    log.state.trim(3)
    assert log.state.aborted_between(0, 6) == [(7, 2), (7, 4)]
    log.state.trim(6)
    assert log.state.aborted_between(0, 6) == []


def test_trim_through_an_open_transaction_moves_its_start_and_keeps_the_producer():
    log = Log()
    log.send(7, 0, 10, txn=True)
    log.send(8, 0, txn=True)
    log.state.trim(5)
    assert log.state.last_stable_offset(log.end) == 5
    assert log.state.open_transactions() == {7: 5, 8: 10}
    assert log.send(7, 10, txn=True) == 11


def test_describe_tells_sequence_epoch_and_open_transaction():
    log = Log()
    log.send(7, 0, 3, epoch=2)
    log.send(8, 0, txn=True)
    log.mark(9, commit=False, epoch=1)
    assert [tuple(row) for row in log.state.describe()] == [
        (7, 2, 2, 1000, -1),
        (8, 0, 0, 1000, 3),
        (9, 1, -1, 1000, -1),
    ]


# --- snapshot and replay ---------------------------------------------------------------------------


def busy_log():
    log = Log()
    for i in range(7):
        log.send(7, i * 2, 2)
    log.send(8, 0, 3, txn=True)
    log.mark(8, commit=False)
    log.send(9, MAX_SEQUENCE, 2, txn=True)
    return log


def restored(state):
    copy = PartitionProducers()
    for delta in state.dump(3):
        raw = msgspec.msgpack.encode(delta)
        copy.apply(msgspec.msgpack.decode(raw, type=PartitionProducersState))
    return copy


def test_a_dump_rebuilds_the_state():
    log = busy_log()
    copy = restored(log.state)
    assert list(copy.dump(3)) == list(log.state.dump(3))
    assert copy.check(7, 0, 4, 2, False, 0) == 4
    assert copy.aborted_between(0, 99) == [(8, 14)]
    assert copy.last_stable_offset(99) == 18


def test_an_empty_partition_dumps_nothing():
    assert list(PartitionProducers().dump(1)) == []


def test_replaying_what_a_snapshot_already_holds_changes_nothing():
    log = busy_log()
    copy = restored(log.state)
    for i in range(7):
        copy.appended(7, 0, i * 2, 2, i * 2, False, 5)
    copy.appended(8, 0, 0, 3, 14, True, 5)
    copy.ended(8, 0, False, 17, 5)
    assert list(copy.dump(3)) == list(log.state.dump(3))
