from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.kernel.log.layout import (
    FileKind,
    FrameKind,
    Link,
    Overlay,
    check_file_head,
    file_head,
    frame_head,
    pack_link,
    pack_overlay,
    unpack_link,
    unpack_overlay,
)
from mainstem.kernel.log.scan import scan
from mainstem.model.errors import CorruptFile, FormatTooNew

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)


def test_a_file_head_gives_its_id_back():
    assert check_file_head(file_head(FileKind.RUN, 77), FileKind.RUN, "f") == 77


def test_a_file_head_of_another_kind_is_refused():
    with pytest.raises(CorruptFile, match="expected a RUN file"):
        check_file_head(file_head(FileKind.JOURNAL, 77), FileKind.RUN, "f")


@pytest.mark.parametrize("size", [0, 7, 31])
def test_a_short_file_head_is_refused_where_it_ends(size):
    with pytest.raises(CorruptFile) as raised:
        check_file_head(file_head(FileKind.RUN, 1)[:size], FileKind.RUN, "f")
    assert (raised.value.path, raised.value.position) == ("f", size)


@given(at=st.integers(0, 31), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_file_head_is_noticed(at, bit):
    head = bytearray(file_head(FileKind.RUN, 5))
    head[at] ^= 1 << bit
    with pytest.raises((CorruptFile, FormatTooNew)):
        check_file_head(head, FileKind.RUN, "f")


@given(
    fields=st.tuples(I64, U64, U64, U32, U32, U32, I64),
    overlay=st.binary(max_size=40),
    epoch=st.integers(-1, 1 << 30),
)
def test_a_link_comes_back_as_it_was_packed(fields, overlay, epoch):
    link = Link(*fields, overlay, epoch)
    assert unpack_link(pack_link(link)) == link


@given(data=st.data())
def test_a_damaged_link_is_no_link(data):
    packed = bytearray(pack_link(Link(1, 2, 3, 4, 5, 6, 7, b"overlay")))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= 1 << data.draw(st.integers(0, 7))
    assert unpack_link(packed) is None
    assert unpack_link(packed[:at]) is None


def test_an_overlay_comes_back_and_none_means_nothing_to_add():
    overlay = Overlay((("x-death", b"1"), ("none", None)))
    assert unpack_overlay(pack_overlay(overlay)) == overlay
    assert unpack_overlay(b"") == Overlay()


@pytest.mark.parametrize(
    ("file_id", "position", "subject"),
    [(2, 100, 5), (1, 101, 5), (1, 100, 6)],
    ids=["file", "place", "subject"],
)
def test_a_frame_is_not_believed_in_another_file_or_place_or_for_another_subject(file_id, position, subject):
    payload = b"payload"
    frame = bytearray(frame_head(1, 100, FrameKind.DELTA, 5, payload) + payload)
    assert scan(memoryview(frame), 100, 100, 1).kinds == [FrameKind.DELTA]
    frame[12:16] = subject.to_bytes(4, "big")
    assert scan(memoryview(frame), position, position, file_id).kinds == []
