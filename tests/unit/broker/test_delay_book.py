"""What a snapshot says of messages that are held back."""

from __future__ import annotations

from mainstem.broker.queues.delays import DelayBook
from mainstem.broker.queues.deltas import Held, HeldMany


def restored(book: DelayBook) -> DelayBook:
    again = DelayBook()
    for delta in book.dump():
        again.apply(delta)
    return again


def test_a_snapshot_has_what_is_due_and_not_published_yet() -> None:
    book = DelayBook()
    book.apply(Held(0, 0, (5, 6, 90)))
    book.overdue = book.timers.due(6, 10)
    assert len(restored(book).timers) == 3
    assert restored(book).timers.due(6, 10) == book.overdue


def test_a_snapshot_has_what_becomes_due_while_it_is_taken() -> None:
    book = DelayBook()
    book.apply(Held(0, 0, (5, 6, 90)))
    again = DelayBook()
    dump = book.dump()
    again.apply(next(dump))
    book.overdue = book.timers.due(6, 10)
    for delta in dump:
        again.apply(delta)
    assert len(again.timers) == 3


def test_a_snapshot_has_what_goes_back_to_the_timers_while_it_is_taken() -> None:
    book = DelayBook()
    book.overdue = [8, 16]
    book.apply(HeldMany((80,), (5000,)))
    dump = book.dump()
    first = next(dump)
    book.overdue.append(24)  # was in the timers until now, where the dump has not come to
    parts = [first, next(dump)]
    book.put_off(24, 9000)
    parts += dump
    again = DelayBook()
    for part in parts:
        again.apply(part)
    assert [id for _, id in again.timers.pending(10)] == [8, 16, 24, 80]
