from __future__ import annotations

from mainstem.kernel.subs.lane import Lane, Run


def state(lane):
    return lane.floor, lane.ready, lane.in_flight


def test_new_ones_are_taken_in_order_as_one_run():
    lane = Lane()
    lane.grow(10)
    assert lane.take(4) == [Run(0, 4, False)]
    assert lane.take(100) == [Run(4, 10, False)]
    assert lane.take(1) == []
    assert state(lane) == (0, 0, 10)


def test_acks_in_order_move_the_floor():
    lane = Lane(end=10)
    lane.take(10)
    assert lane.ack(0, 3) == 3
    assert state(lane) == (3, 0, 7)
    assert lane.ack(3, 10) == 7
    assert state(lane) == (10, 0, 0)
    assert list(lane.acked()) == []


def test_an_ack_above_the_floor_waits_for_those_below():
    lane = Lane(end=10)
    lane.take(10)
    assert lane.ack(5, 8) == 3
    assert lane.floor == 0
    assert list(lane.acked()) == [(5, 8)]
    assert lane.ack(0, 5) == 5
    assert lane.floor == 8


def test_an_ack_of_what_is_acked_or_not_there_counts_nothing():
    lane = Lane(end=10)
    lane.take(5)
    lane.ack(0, 3)
    assert lane.ack(0, 3) == 0
    assert lane.ack(10, 20) == 0
    assert lane.ack(2, 4) == 1
    assert lane.ack(8, 99) == 2
    assert state(lane) == (4, 3, 1)


def test_what_is_given_back_comes_again_before_what_is_new():
    lane = Lane(end=10)
    lane.take(6)
    assert lane.give_back(2, 4) == 2
    assert state(lane) == (0, 6, 4)
    assert lane.take(3) == [Run(2, 4, True), Run(6, 7, False)]
    assert lane.give_back(2, 3) == 1
    assert lane.take(1) == [Run(2, 3, True)]


def test_give_back_of_what_is_not_in_flight_does_nothing():
    lane = Lane(end=10)
    lane.take(4)
    lane.ack(0, 2)
    assert lane.give_back(0, 2) == 0
    assert lane.give_back(6, 20) == 0
    assert lane.attempts(6) == 0
    assert state(lane) == (2, 6, 2)


def test_failed_deliveries_are_counted_until_the_ack():
    lane = Lane(end=3)
    for _ in range(2):
        lane.take(3)
        lane.give_back(1, 2)
        lane.give_back(0, 3, failed=False)
    assert [lane.attempts(offset) for offset in range(3)] == [0, 2, 0]
    lane.ack(1, 2)
    assert lane.attempts(1) == 0
    assert not lane.failed()


def test_what_is_ready_can_be_acked_before_its_turn():
    lane = Lane(end=10)
    assert lane.ack(4, 6) == 2
    assert lane.ready == 8
    assert lane.take(100) == [Run(0, 4, False), Run(6, 10, False)]
    assert state(lane) == (0, 0, 8)
    assert list(lane.acked()) == [(4, 6)]


def test_a_purge_acks_all():
    lane = Lane(end=10)
    lane.take(4)
    lane.give_back(1, 2)
    lane.ack(7, 8)
    assert lane.ack(lane.floor, lane.end) == 9
    assert state(lane) == (10, 0, 0)
    lane.grow(12)
    assert lane.take(5) == [Run(10, 12, False)]


def test_a_peek_takes_nothing():
    lane = Lane(end=10)
    lane.take(3)
    lane.give_back(1, 2)
    lane.ack(5, 6)
    seen = lane.peek(4)
    assert seen == [Run(1, 2, True), Run(3, 5, False), Run(6, 7, False)]
    assert lane.peek(4) == seen == lane.take(4)
    assert lane.peek(0) == []


def test_after_a_start_what_was_delivered_before_comes_again_and_says_so():
    before = Lane(end=20)
    before.take(10)
    before.ack(0, 2)
    before.ack(5, 7)
    before.give_back(8, 9)
    lane = Lane()
    lane.restore(before.floor, list(before.acked()), before.delivered, before.failed())
    lane.grow(20)
    assert state(lane) == (2, 16, 0)
    assert lane.attempts(8) == 1
    assert lane.take(100) == [Run(2, 5, True), Run(7, 10, True), Run(10, 20, False)]


def test_what_is_restored_is_cut_at_the_floor():
    lane = Lane()
    lane.restore(5, [(2, 4), (3, 7), (9, 10)], 0, [(1, 2, 2), (6, 7, 1), (7, 8, 3), (9, 10, 1)])
    assert lane.end == 10
    assert state(lane) == (7, 2, 0)
    assert lane.failed() == [(7, 8, 3)]
    assert list(lane.acked()) == [(9, 10)]
    assert lane.take(5) == [Run(7, 9, False)]


def test_failures_of_an_earlier_process_are_taken_up_until_the_ack():
    lane = Lane()
    lane.restore(2, [], 0, ())
    lane.grow(10)
    lane.restore_failed(0, 6, 1)
    lane.restore_failed(3, 4, 2)
    lane.restore_failed(0, 6, 1)  # replayed again
    assert lane.failed() == [(2, 3, 1), (3, 4, 2), (4, 6, 1)]
    lane.ack(2, 5)
    assert lane.failed() == [(5, 6, 1)]


def test_a_million_that_came_back_once_are_saved_as_one_range():
    lane = Lane(end=1_000_000)
    lane.take(1_000_000)
    lane.give_back(0, 1_000_000)
    assert lane.failed() == [(0, 1_000_000, 1)]


def test_a_seek_back_delivers_again():
    lane = Lane(end=10)
    lane.take(6)
    lane.ack(0, 4)
    lane.seek(2)
    assert state(lane) == (2, 8, 0)
    assert lane.take(100) == [Run(2, 6, True), Run(6, 10, False)]


def test_a_seek_ahead_skips_and_stops_at_the_end():
    lane = Lane(end=10)
    lane.take(2)
    lane.seek(7)
    assert state(lane) == (7, 3, 0)
    lane.seek(99)
    assert state(lane) == (10, 0, 0)
