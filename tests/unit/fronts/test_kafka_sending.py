"""How chunks of an answer reach the transport."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from mainstem.fronts.kafka.sending import SMALL_WRITE, send
from mainstem.kernel.log.disk import OsDisk
from mainstem.kernel.log.sound import LARGE_SLICE
from mainstem.model.slices import FileSlice
from mainstem.net.pacing import stop_pacing


class Pipe(asyncio.Transport):
    """Keeps each write; `holds` says how much the peer has not taken."""

    def __init__(self, holds: int = 0, **extra: Any) -> None:
        super().__init__(extra)
        self.writes: list[bytes] = []
        self.holds = holds

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.holds


@pytest.fixture
def cut(tmp_path: Path) -> FileSlice:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.pwritev([b"x" * 100, b"s" * LARGE_SLICE], 0)
    return FileSlice(file, 100, LARGE_SLICE)


def test_small_chunks_become_one_write_and_large_ones_are_not_copied():
    pipe, large = Pipe(), b"l" * SMALL_WRITE
    send(pipe, -1, [b"a", bytearray(b"b"), memoryview(b"c")])
    send(pipe, -1, [])
    send(pipe, -1, [b"d", b"e", large, b"f", b"g"])
    assert pipe.writes == [b"abc", b"de", large, b"fg"]


def test_a_slice_is_never_so_small_that_it_is_joined():
    assert LARGE_SLICE >= SMALL_WRITE


def test_a_slice_goes_to_the_socket_between_what_is_written(cut):
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        pipe = Pipe()
        send(pipe, ours.fileno(), [b"head", b"more", cut, b"tail"])
        assert pipe.writes == [b"headmore", b"tail"]
        assert peer.recv(LARGE_SLICE, socket.MSG_WAITALL) == cut.read()


@pytest.mark.parametrize("holds", [0, 1])
def test_a_slice_is_read_if_it_may_not_overtake_what_is_held_or_has_no_socket(cut, holds):
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        pipe = Pipe(holds)
        send(pipe, ours.fileno() if holds else -1, [b"head", cut, b"tail"])
        assert pipe.writes == [b"head", cut.read(), b"tail"]


class Options:
    """A socket as far as its congestion control goes."""

    def __init__(self, now: bytes, refuses: bool = False) -> None:
        self.now = now
        self.refuses = refuses

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_CONGESTION)
        return self.now.ljust(size, b"\0")

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        if self.refuses:
            raise PermissionError
        self.now = value


@pytest.mark.parametrize(
    ("before", "refuses", "after"),
    [
        (b"bbr", False, b"reno"),
        (b"bbr", True, b"bbr"),
        (b"cubic", False, b"cubic"),
        (b"dctcp", False, b"dctcp"),
    ],
)
def test_only_bbr_is_replaced(before, refuses, after):
    options = Options(before, refuses)
    stop_pacing(Pipe(socket=options))
    stop_pacing(Pipe())
    assert options.now == after
