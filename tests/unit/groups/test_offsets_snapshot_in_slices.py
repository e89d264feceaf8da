"""A snapshot is written while commits go on: what it holds, and the journal after it, must agree."""

from mainstem.kernel.groups.offsets import (
    MOST_DUMPED,
    CommittedOffset,
    GroupDeleted,
    GroupOffsets,
    OffsetDelta,
    OffsetsCommitted,
    OffsetsDeleted,
    TxnOffsetsEnded,
    TxnOffsetsStaged,
)

TOPIC = bytes(16)
PRODUCER = 7


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(TOPIC, 0, offset, -1, "", 0)


def recovered(snapshot: list[OffsetDelta], after: list[OffsetDelta]) -> GroupOffsets:
    offsets = GroupOffsets()
    for delta in [*snapshot, *after]:
        offsets.apply(delta)
    return offsets


def test_a_transaction_that_ends_while_the_snapshot_is_written_is_replayed_once():
    live = GroupOffsets()
    live.apply(OffsetsCommitted("other", [at(1)]))
    live.apply(TxnOffsetsStaged(PRODUCER, "g", [at(10)]))
    dump = live.dump()  # the journal position is noted here
    after: list[OffsetDelta] = [
        TxnOffsetsEnded(PRODUCER, commit=True),
        TxnOffsetsStaged(PRODUCER, "g", [at(20)]),
    ]
    for delta in after:
        live.apply(delta)
    again = recovered(list(dump), after)
    assert again.get("g", TOPIC, 0) == live.get("g", TOPIC, 0) == at(10)
    again.apply(TxnOffsetsEnded(PRODUCER, commit=False))
    assert again.get("g", TOPIC, 0) == at(10)


def test_groups_may_come_and_go_between_two_slices():
    live = GroupOffsets()
    for number in range(3):
        live.apply(OffsetsCommitted(f"g{number}", [at(number)]))
    dump = live.dump()
    first = next(dump)
    after: list[OffsetDelta] = [GroupDeleted("g1"), OffsetsCommitted("g3", [at(3)])]
    for delta in after:
        live.apply(delta)
    again = recovered([first, *dump], after)
    assert sorted(again.groups()) == sorted(live.groups()) == ["g0", "g2", "g3"]


def test_offsets_committed_after_their_group_was_written_come_from_the_journal():
    live = GroupOffsets()
    live.apply(OffsetsCommitted("g", [at(1)]))
    dump = list(live.dump())
    assert recovered(dump, [OffsetsCommitted("g", [at(2)])]).get("g", TOPIC, 0) == at(2)


def test_a_group_of_many_offsets_is_written_in_pieces_and_what_is_deleted_between_them_stays_deleted():
    live = GroupOffsets()
    count = 2 * MOST_DUMPED + 1
    live.apply(OffsetsCommitted("g", [CommittedOffset(TOPIC, n, n, -1, "", 0) for n in range(count)]))
    dump = live.dump()
    pieces = [next(dump)]
    after: list[OffsetDelta] = [
        OffsetsDeleted("g", [(TOPIC, 0), (TOPIC, count - 1)]),
        OffsetsCommitted("g", [CommittedOffset(TOPIC, count, 5, -1, "", 0)]),
    ]
    for delta in after:
        live.apply(delta)
    pieces += dump
    assert [len(piece.offsets) for piece in pieces if isinstance(piece, OffsetsCommitted)] == [
        MOST_DUMPED
    ] * 2
    again = recovered(pieces, after)
    assert list(again.all("g")) == list(live.all("g"))
    assert len(list(live.all("g"))) == count - 1
