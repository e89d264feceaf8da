"""Numbers are read as `struct` reads them, compiled or not."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.model.big_endian import int16_at, int32_at


@given(st.integers(-(2**15), 2**15 - 1), st.integers(0, 3))
def test_two_bytes(value, at):
    assert int16_at(bytearray(bytes(at) + struct.pack(">h", value)), at) == value


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 3))
def test_four_bytes(value, at):
    assert int32_at(bytearray(bytes(at) + struct.pack(">i", value)), at) == value


@pytest.mark.parametrize("at", [1, 2, 100])
def test_nothing_is_read_beyond_the_end(at):
    with pytest.raises((IndexError, struct.error)):
        int32_at(bytearray(4), at)
