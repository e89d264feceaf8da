"""Received bytes become frames, however they are cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.fronts.kafka.inbox import LARGEST_SLAB, ROOMY_FROM, SMALLEST_SLAB, TRUSTED_BYTES, Inbox
from mainstem.model.errors import RequestTooLarge


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(inbox: Inbox, data: bytes, most: int = 1 << 30) -> list[bytes]:
    """Hand over bytes as a socket would, at most so many at a time; the frames that came of it."""
    frames, position = [], 0
    while position < len(data):
        room = inbox.room()
        assert len(room) > 0
        piece = data[position : position + min(len(room), most)]
        room[: len(piece)] = piece
        inbox.received(len(piece))
        position += len(piece)
        while (frame := inbox.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


@given(
    st.lists(
        st.integers(1, 3) | st.sampled_from([5000, 20_000, LARGEST_SLAB, LARGEST_SLAB + 1]), max_size=12
    ),
    st.sampled_from([1, 3, 1000, 1 << 30]),
)
def test_frames_come_out_as_they_went_in(sizes, most):
    bodies = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    if most < 1000:
        bodies = [body[:5000] for body in bodies]
    assert feed(Inbox(100 << 20), b"".join(map(framed, bodies)), most) == bodies


def test_memory_whose_frames_all_came_back_is_used_from_its_start_again():
    inbox = Inbox(1 << 20)
    feed(inbox, framed(bytes(ROOMY_FROM)))
    small = inbox.slab
    inbox.give_back(small)
    feed(inbox, framed(b"first"))
    slab = inbox.slab
    assert slab is not small, "there is more to come than it holds"
    feed(inbox, framed(b"second"))
    assert bytes(slab.view[4:9]) == b"first", "it was not given back"
    inbox.give_back(slab)
    inbox.give_back(slab)
    assert feed(inbox, framed(b"third") + framed(b"and the fourth")) == [b"third", b"and the fourth"]
    assert inbox.slab is slab
    assert bytes(slab.view[4:9]) == b"third"


def test_memory_is_not_used_again_while_the_beginning_of_a_frame_lies_there():
    inbox = Inbox(1 << 20)
    whole = framed(b"cut in two")
    feed(inbox, framed(b"first") + whole[:6])
    inbox.give_back(inbox.slab)
    assert feed(inbox, whole[6:]) == [b"cut in two"]


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1001, 2**31 - 1])
def test_a_size_that_is_not_taken_is_refused_once_it_is_known(size):
    inbox = Inbox(1000)
    with pytest.raises(RequestTooLarge):
        feed(inbox, struct.pack(">i", size))


def test_memory_for_a_large_frame_grows_with_its_bytes_not_with_its_announcement():
    inbox = Inbox(100 << 20)
    feed(inbox, struct.pack(">i", 90 << 20) + b"x" * 1000)
    assert len(inbox.slab.data) <= TRUSTED_BYTES
    feed(inbox, b"x" * (10 << 20))
    assert len(inbox.slab.data) <= 24 << 20


def test_bytes_of_a_frame_stay_while_later_frames_come():
    inbox = Inbox(1 << 20)
    kept = []
    for number in range(200):
        body = bytes([number]) * 3000
        room = inbox.room()
        data = framed(body)
        while data:
            part = data[: len(room)]
            room[: len(part)] = part
            inbox.received(len(part))
            data = data[len(part) :]
            frame = inbox.next_frame()
            if frame is not None:
                kept.append((frame, body))
            room = inbox.room()
    assert all(bytes(frame) == body for frame, body in kept)
    assert len(kept) == 200


@pytest.mark.parametrize("waiting_bytes", [1_000, 16 << 10, 20_000, 60_000])
def test_frames_that_cannot_be_taken_yet_outlast_a_rest_and_more_come_behind_them(waiting_bytes):
    inbox = Inbox(1 << 20)
    feed(inbox, framed(b"x" * 900_000))  # its slab is a large one
    body = bytes(waiting_bytes - 4)
    sent = framed(body) + framed(b"behind")
    room = inbox.room()
    room[:waiting_bytes] = sent[:waiting_bytes]
    inbox.received(waiting_bytes)
    inbox.rest()
    frames = feed(inbox, sent[waiting_bytes:])
    assert frames == [body, b"behind"]


def test_a_connection_at_rest_holds_little():
    inbox = Inbox(1 << 20)
    feed(inbox, framed(b"x" * 900_000))
    inbox.rest()
    assert len(inbox.slab.data) == 0


@pytest.mark.parametrize("size", [100, 50_000])
def test_a_slow_connection_holds_no_more_than_its_begun_frame_needs(size):
    inbox = Inbox(1 << 20)
    frame = framed(bytes(range(100)) * (size // 100))
    feed(inbox, framed(b"x" * 900_000) + frame[:90])
    inbox.rest()
    assert len(inbox.slab.data) == max(len(frame), SMALLEST_SLAB)
    assert feed(inbox, frame[90:]) == [frame[4:]]
