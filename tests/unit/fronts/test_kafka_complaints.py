"""Lines about bad input: who did it is told, and their number is bounded."""

import logging
from types import SimpleNamespace

import pytest

from mainstem.fronts.kafka.complaints import (
    CONNECTION_EVERY_MS,
    LISTENER_EVERY_MS,
    MOST_ALIKE,
    MOST_AT_ONCE,
    Complaints,
)


class Clock:
    now_ms = 1_000_000

    def monotonic_ms(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [str(record.msg) for record in caplog.records]


def session(clock, peer="127.0.0.1:5"):
    broker = SimpleNamespace(clock=clock)
    return SimpleNamespace(
        broker=broker, host="127.0.0.1", peer=peer, principal="User:ANONYMOUS", complained_ms=None
    )


def test_a_line_names_the_peer_and_the_facts(clock, lines):
    Complaints().tell(session(clock), "batch refused", why="bad crc")
    assert lines() == ['batch refused peer=127.0.0.1:5 principal=User:ANONYMOUS why="bad crc"']


def test_a_connection_has_a_line_now_and_then_that_tells_what_was_left_out(clock, lines):
    complaints, one = Complaints(), session(clock)
    for _ in range(10):
        complaints.tell(one, "batch refused")
    assert len(lines()) == 1
    clock.now_ms += CONNECTION_EVERY_MS
    complaints.tell(one, "batch refused")
    assert len(lines()) == 2
    assert lines()[1].endswith("left_out=9")


def test_all_connections_together_have_a_bounded_number_of_lines(clock, lines):
    complaints = Complaints()
    for number in range(3 * MOST_AT_ONCE):
        complaints.tell(session(clock, f"peer:{number}"), "batch refused")
    assert len(lines()) == MOST_AT_ONCE
    clock.now_ms += 2 * LISTENER_EVERY_MS
    for number in range(10):
        complaints.tell(session(clock, f"other:{number}"), "batch refused")
    assert len(lines()) == MOST_AT_ONCE + 2
    clock.now_ms += 1000 * LISTENER_EVERY_MS
    for number in range(3 * MOST_AT_ONCE):
        complaints.tell(session(clock, f"later:{number}"), "batch refused")
    assert len(lines()) == 2 * MOST_AT_ONCE + 2


def test_connections_of_one_address_that_end_alike_have_some_lines_and_others_theirs(clock, lines):
    complaints = Complaints()
    for number in range(3 * MOST_ALIKE):
        complaints.closed(session(clock, f"127.0.0.1:{number}"), "Metadata before authentication")
    assert len(lines()) == MOST_ALIKE
    complaints.closed(session(clock), "something else")
    assert len(lines()) == MOST_ALIKE + 1
    assert lines()[-1].endswith(f"left_out={2 * MOST_ALIKE}")
    clock.now_ms += CONNECTION_EVERY_MS
    complaints.closed(session(clock), "Metadata before authentication")
    assert len(lines()) == MOST_ALIKE + 2
