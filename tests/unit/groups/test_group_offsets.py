"""Committed offsets: plain, transactional, deleted, expired, dumped."""

import msgspec
import pytest

from mainstem.kernel.groups.offsets import (
    CommittedOffset,
    GroupDeleted,
    GroupOffsets,
    OffsetDelta,
    OffsetsCommitted,
    OffsetsDeleted,
    TopicOffsetsDeleted,
    TxnOffsetsEnded,
    TxnOffsetsStaged,
    check_metadata,
)
from mainstem.model.errors import OffsetMetadataTooLarge

ORDERS, USERS = b"o" * 16, b"u" * 16
DAY_MS = 86_400_000


def at(offset: int, topic_id: bytes = ORDERS, partition: int = 0, commit_ms: int = 0) -> CommittedOffset:
    return CommittedOffset(topic_id, partition, offset, 3, "note", commit_ms)


def machine(*deltas: OffsetDelta) -> GroupOffsets:
    offsets = GroupOffsets()
    for delta in deltas:
        offsets.apply(delta)
    return offsets


def committed(offsets: GroupOffsets, group: str = "g", topic_id: bytes = ORDERS) -> int | None:
    found = offsets.get(group, topic_id, 0)
    return None if found is None else found.offset


def test_a_commit_is_read_back_with_everything_it_said():
    offsets = machine(OffsetsCommitted("g", [at(5), at(7, USERS, 2, 99)]))
    assert offsets.get("g", USERS, 2) == CommittedOffset(USERS, 2, 7, 3, "note", 99)
    assert [one.offset for one in offsets.all("g")] == [5, 7]
    assert offsets.get("g", USERS, 0) is None
    assert offsets.get("other", ORDERS, 0) is None
    assert list(offsets.groups()) == ["g"]


def test_the_later_commit_wins_even_if_it_goes_backwards():
    assert committed(machine(OffsetsCommitted("g", [at(5)]), OffsetsCommitted("g", [at(2)]))) == 2


def test_a_group_without_offsets_is_gone():
    offsets = machine(
        OffsetsCommitted("g", [at(5), at(6, partition=1)]), OffsetsDeleted("g", [(ORDERS, 0), (ORDERS, 1)])
    )
    assert "g" not in offsets
    assert "h" not in machine(OffsetsCommitted("h", [at(1)]), GroupDeleted("h"))


def test_a_deleted_topic_takes_its_offsets_from_every_group_and_transaction():
    offsets = machine(
        OffsetsCommitted("g", [at(5), at(6, USERS)]),
        OffsetsCommitted("h", [at(7)]),
        TxnOffsetsStaged(1, "g", [at(9)]),
        TopicOffsetsDeleted(ORDERS),
        TxnOffsetsEnded(1, True),
    )
    assert committed(offsets) is None
    assert committed(offsets, topic_id=USERS) == 6
    assert "h" not in offsets


def test_staged_offsets_show_only_when_their_transaction_commits():
    offsets = machine(OffsetsCommitted("g", [at(5)]), TxnOffsetsStaged(1, "g", [at(9)]))
    assert committed(offsets) == 5
    assert offsets.unstable("g", ORDERS, 0)
    assert not offsets.unstable("g", ORDERS, 1)
    assert offsets.has_staged("g")
    offsets.apply(TxnOffsetsEnded(1, True))
    assert committed(offsets) == 9
    assert not offsets.unstable("g", ORDERS, 0)
    assert not offsets.has_staged("g")


def test_staged_offsets_of_an_aborted_transaction_vanish():
    offsets = machine(
        OffsetsCommitted("g", [at(5)]), TxnOffsetsStaged(1, "g", [at(9)]), TxnOffsetsEnded(1, False)
    )
    assert committed(offsets) == 5
    assert not offsets.unstable("g", ORDERS, 0)


def test_a_plain_commit_after_staging_wins_and_the_key_stays_unstable_until_the_end():
    offsets = machine(TxnOffsetsStaged(1, "g", [at(9)]), OffsetsCommitted("g", [at(6)]))
    assert offsets.unstable("g", ORDERS, 0)
    offsets.apply(TxnOffsetsEnded(1, True))
    assert committed(offsets) == 6


def test_of_two_transactions_the_one_staged_later_wins_whichever_ends_first():
    staged = (TxnOffsetsStaged(1, "g", [at(3)]), TxnOffsetsStaged(2, "g", [at(8)]))
    for ends in ((1, 2), (2, 1)):
        assert committed(machine(*staged, *(TxnOffsetsEnded(who, True) for who in ends))) == 8


def test_deleting_offsets_or_the_group_drops_what_is_staged():
    for delete in (OffsetsDeleted("g", [(ORDERS, 0)]), GroupDeleted("g")):
        offsets = machine(TxnOffsetsStaged(1, "g", [at(9)]), delete)
        assert not offsets.unstable("g", ORDERS, 0)
        offsets.apply(TxnOffsetsEnded(1, True))
        assert "g" not in offsets


def test_offsets_expire_after_retention_counted_from_commit_and_from_emptiness():
    offsets = machine(OffsetsCommitted("g", [at(5, commit_ms=0), at(6, USERS, commit_ms=DAY_MS)]))
    assert offsets.expired("g", DAY_MS, DAY_MS) == [(ORDERS, 0)]
    assert offsets.expired("g", DAY_MS - 1, DAY_MS) == []
    assert offsets.expired("g", 3 * DAY_MS, DAY_MS) == [(ORDERS, 0), (USERS, 0)]
    assert offsets.expired("g", 3 * DAY_MS, DAY_MS, empty_since_ms=3 * DAY_MS - 5) == []
    assert offsets.expired("unknown", DAY_MS, DAY_MS) == []


def test_an_offset_with_a_staged_successor_does_not_expire():
    offsets = machine(OffsetsCommitted("g", [at(5)]), TxnOffsetsStaged(1, "g", [at(9)]))
    assert offsets.expired("g", 9 * DAY_MS, DAY_MS) == []


def test_too_much_metadata_is_refused():
    check_metadata("é" * 5, 10)
    with pytest.raises(OffsetMetadataTooLarge):
        check_metadata("é" * 6, 10)


def test_every_delta_survives_its_encoding():
    deltas = [
        OffsetsCommitted("g", [at(5)]),
        OffsetsDeleted("g", [(ORDERS, 0)]),
        GroupDeleted("g"),
        TopicOffsetsDeleted(ORDERS),
        TxnOffsetsStaged(1, "g", [at(5)]),
        TxnOffsetsEnded(1, True),
    ]
    for delta in deltas:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=OffsetDelta) == delta


def test_offsets_that_expire_leave_a_commit_that_came_just_before():
    """It was decided while the commit was on its way to the disk, and is behind it in the journal."""
    offsets = machine(
        OffsetsCommitted("g", [at(5), at(6, partition=1)]),
        OffsetsCommitted("g", [at(7, commit_ms=1)]),
        TxnOffsetsStaged(9, "g", [at(8, partition=1, commit_ms=1)]),
        OffsetsDeleted("g", [(ORDERS, 0), (ORDERS, 1)], committed_upto_ms=0),
    )
    assert list(offsets.all("g")) == [at(7, commit_ms=1)]
    offsets.apply(TxnOffsetsEnded(9, commit=True))
    assert offsets.get("g", ORDERS, 1) == at(8, partition=1, commit_ms=1)


def test_which_protocol_a_group_has_is_kept_with_its_offsets():
    offsets = machine(OffsetsCommitted("g", [at(5)], True), OffsetsCommitted("g", [at(6)]))
    assert offsets.is_consumer("g")  # who is no member of any kind changes nothing
    again = machine(*offsets.dump())
    assert again.is_consumer("g")
    again.apply(OffsetsCommitted("g", [at(7)], False))
    assert not again.is_consumer("g")
    assert not machine(*again.dump()).is_consumer("g")


@pytest.mark.parametrize(
    "gone", [GroupDeleted("g"), OffsetsDeleted("g", [(ORDERS, 0)]), TopicOffsetsDeleted(ORDERS)]
)
def test_a_group_that_is_gone_has_no_protocol(gone):
    offsets = machine(OffsetsCommitted("g", [at(5)], True), gone)
    assert not offsets.is_consumer("g")


def test_a_group_has_a_protocol_while_a_transaction_may_still_commit_for_it():
    staged = TxnOffsetsStaged(1, "g", [at(5)], True)
    assert machine(*machine(staged).dump()).is_consumer("g")
    assert machine(staged, TxnOffsetsEnded(1, True)).is_consumer("g")
    assert not machine(staged, TxnOffsetsEnded(1, False)).is_consumer("g")
    assert not machine(staged, TopicOffsetsDeleted(ORDERS)).is_consumer("g")
