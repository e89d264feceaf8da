"""The judge sees every kind of loss: each test breaks one promise in a sound history."""

from __future__ import annotations

import pytest

from mainstem.client import TopicPartition
from mainstem.torture.judge import Piping, judge
from mainstem.torture.ledger import Committed, Ledger, Outcome, Repeats, Transaction, identity, value_of
from mainstem.torture.readback import Readback, View, stored

IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)
PIPING = Piping("pipe", "in", "out")


def record(writer: str, number: int):
    return stored(value_of(writer, number, 100))


def sound() -> tuple[Ledger, dict[TopicPartition, View], dict[str, dict[TopicPartition, int]]]:
    """Three records of an idempotent producer, a committed and an aborted transaction, one copy."""
    ledger = Ledger()
    plain = ledger.writer("idempotent", Repeats.ONCE)
    plain.sent, plain.acked = {0: IN, 1: IN, 2: IN}, {0: 0, 1: 1}
    txn = ledger.writer("transactional", Repeats.ONCE, transactional=True)
    txn.sent, txn.acked = {0: IN, 1: IN, 2: IN}, {0: 2, 1: 3, 2: 5}
    ledger.transactions = [
        Transaction("transactional", [0, 1], Outcome.COMMITTED),
        Transaction("transactional", [2], Outcome.ABORTED),
    ]
    ledger.groups = {"group": {IN: Committed(acked=2, tried={4}, floor=1)}}
    ledger.watermarks = {IN: 6}
    ledger.saw(IN, 1, value_of("idempotent", 1, 100))
    names = {0: ("idempotent", 0), 1: ("idempotent", 1), 2: ("transactional", 0), 3: ("transactional", 1)}
    committed = {offset: record(*name) for offset, name in names.items()}
    source = View(0, 7, 7, {**committed, 5: record("transactional", 2)}, {4, 6}, committed)
    copy = {0: record("idempotent", 0)}
    target = View(0, 2, 2, copy, {1}, copy)
    return ledger, {IN: source, OUT: target}, {"group": {IN: 4}, "pipe": {IN: 1}}


def broken(ledger, views, groups) -> set[str]:
    verdict = judge(ledger, Readback(views, groups), PIPING)
    assert verdict.is_good == (not verdict.findings())
    return {name for name, check in verdict.checks.items() if check.wrong}


def test_a_sound_history_is_found_sound():
    assert broken(*sound()) == set()


def test_an_acknowledged_record_that_is_gone_is_a_loss():
    ledger, views, groups = sound()
    del views[IN].records[3]
    views[IN].high_watermark = views[IN].last_stable = 3
    assert "present" in broken(ledger, views, groups)


def test_another_record_at_an_acknowledged_offset_is_a_loss():
    ledger, views, groups = sound()
    views[IN].records[0] = record("idempotent", 2)
    assert {"present", "order"} <= broken(ledger, views, groups)


def test_an_acknowledgement_without_an_offset_needs_the_record_somewhere():
    ledger, views, groups = sound()
    ledger.writers["idempotent"].acked[2] = -1
    assert broken(ledger, views, groups) == {"present"}


def test_one_wrong_byte_is_seen():
    ledger, views, groups = sound()
    value = bytearray(value_of("idempotent", 1, 100))
    value[-1] ^= 1
    assert identity(bytes(value)) is None
    views[IN].records[1] = stored(bytes(value))
    assert {"whole", "present", "watermark"} <= broken(ledger, views, groups)


def test_a_record_of_an_idempotent_producer_twice_is_seen():
    ledger, views, groups = sound()
    views[IN].records[7] = views[IN].committed[7] = record("idempotent", 1)
    views[IN].high_watermark = views[IN].last_stable = 8
    assert broken(ledger, views, groups) == {"once"}


def test_a_retrying_producer_may_repeat_itself():
    ledger, views, groups = sound()
    ledger.writers["idempotent"].repeats = Repeats.OFTEN
    views[IN].records[7] = views[IN].committed[7] = record("idempotent", 1)
    views[IN].high_watermark = views[IN].last_stable = 8
    assert broken(ledger, views, groups) == set()


@pytest.mark.parametrize(
    ("outcome", "visible", "fine"),
    [
        (Outcome.COMMITTED, (2,), False),
        (Outcome.COMMITTED, (), False),
        (Outcome.UNKNOWN, (2,), False),
        (Outcome.UNKNOWN, (), True),
        (Outcome.UNKNOWN, (2, 3), True),
        (Outcome.ABORTED, (2, 3), False),
        (Outcome.ABORTED, (), True),
        (Outcome.OPEN, (), False),
    ],
)
def test_a_transaction_is_whole_or_not_there(outcome, visible, fine):
    ledger, views, groups = sound()
    ledger.transactions[0].outcome = outcome
    views[IN].committed = {at: one for at, one in views[IN].committed.items() if at < 2 or at in visible}
    assert broken(ledger, views, groups) == (set() if fine else {"transactions"})


def test_an_output_without_its_offset_and_an_offset_without_its_output_are_seen():
    ledger, views, groups = sound()
    assert broken(ledger, views, {**groups, "pipe": {IN: 2}}) == {"pipeline"}
    assert broken(ledger, views, {**groups, "pipe": {}}) == {"pipeline"}


@pytest.mark.parametrize(("offset", "fine"), [(2, True), (4, True), (1, False), (3, False), (0, False)])
def test_a_group_is_at_its_last_commit_or_at_one_that_was_not_answered(offset, fine):
    ledger, views, groups = sound()
    assert broken(ledger, views, {**groups, "group": {IN: offset}}) == (set() if fine else {"groups"})


def test_a_gap_in_offsets_is_seen():
    ledger, views, groups = sound()
    views[IN].markers.discard(6)
    assert broken(ledger, views, groups) == {"offsets"}


def test_a_transaction_that_hangs_is_seen():
    ledger, views, groups = sound()
    views[IN].last_stable = 5
    assert broken(ledger, views, groups) == {"offsets"}


def test_a_high_watermark_that_went_back_is_seen():
    ledger, views, groups = sound()
    ledger.watermarks[IN] = 8
    assert broken(ledger, views, groups) == {"watermark"}


def test_what_a_client_found_wrong_counts():
    ledger, views, groups = sound()
    ledger.saw(IN, 1, b"something else")
    assert broken(ledger, views, groups) == {"clients"}
