"""Where bytes are received: nothing that somebody still looks at is overwritten, nothing is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.fronts.amqp.inbox import SMALLEST_ROOM, Inbox


def _receive(inbox: Inbox, data: bytes, waiting: bool) -> None:
    while data:
        room = inbox.room(waiting)
        count = min(len(room), len(data))
        room[:count] = data[:count]
        inbox.received(count)
        data = data[count:]


def test_there_is_always_room() -> None:
    inbox = Inbox()
    for _ in range(100):
        assert len(inbox.room(True)) >= SMALLEST_ROOM
        _receive(inbox, bytes(5000), True)
    assert inbox.buffered == 500_000


def test_a_slab_in_use_keeps_its_bytes() -> None:
    inbox = Inbox()
    _receive(inbox, b"a" * 10_000, False)
    used, inbox.start = inbox.data, 9_000
    _receive(inbox, b"b" * 100_000, True)
    assert used[:10_000] == b"a" * 10_000
    assert bytes(inbox.data[inbox.start : inbox.end]) == b"a" * 1000 + b"b" * 100_000


def test_an_idle_inbox_holds_no_memory() -> None:
    inbox = Inbox()
    _receive(inbox, bytes(300_000), False)
    inbox.start = inbox.end
    inbox.rest()
    assert len(inbox.data) == 0
    _receive(inbox, b"more", False)
    assert bytes(inbox.data[inbox.start : inbox.end]) == b"more"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 70_000), st.floats(0, 1), st.booleans()), max_size=20))
def test_bytes_come_out_as_they_came_in(steps: list[tuple[int, float, bool]]) -> None:
    inbox, sent, seen = Inbox(), 0, 0
    for size, share, waiting in steps:
        _receive(inbox, bytes((sent + index) % 251 for index in range(size)), waiting)
        sent += size
        taken = int(inbox.buffered * share)
        found = inbox.data[inbox.start : inbox.start + taken]
        assert all(byte == (seen + index) % 251 for index, byte in enumerate(found))
        inbox.start += taken
        seen += taken
    assert inbox.buffered == sent - seen
