"""Write an answer's chunks to a connection: small ones together, slices of files past this process."""

from __future__ import annotations

import asyncio
from socket import AF_INET, MSG_DONTWAIT, MSG_MORE, SOCK_STREAM, socket

from mainstem.model.ports import Buffer
from mainstem.model.slices import Chunk, FileSlice

# Answers up to this size together are joined into one write. A slice is always larger.
SMALL_WRITE = 64 << 10


def plain_socket(transport: asyncio.Transport) -> int:
    """The descriptor that may be written to while the transport holds nothing back; -1 if none may."""
    found = transport.get_extra_info("socket")
    if found is None or transport.get_extra_info("sslcontext") is not None:
        return -1
    return int(found.fileno())


def send(transport: asyncio.Transport, socket_fd: int, chunks: list[Chunk]) -> None:
    """In order. What the socket does not take now is read into memory and left to the transport."""
    if sum(map(len, chunks)) <= SMALL_WRITE:
        _write(transport, chunks)  # type: ignore[arg-type]  # a slice is larger than that
        return
    small: list[Buffer] = []
    size = 0
    for chunk in chunks:
        if isinstance(chunk, FileSlice):
            _send_slice(transport, socket_fd, small, chunk)
            small, size = [], 0
            continue
        size += len(chunk)
        if size > SMALL_WRITE:
            _write(transport, small)
            small, size = [], len(chunk)
        small.append(chunk)
    _write(transport, small)


def _write(transport: asyncio.Transport, chunks: list[Buffer]) -> None:
    if chunks:
        transport.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))


def _send_slice(transport: asyncio.Transport, socket_fd: int, before: list[Buffer], chunk: FileSlice) -> None:
    if socket_fd < 0 or transport.get_write_buffer_size():
        _write(transport, before)
        transport.write(chunk.read())
        return
    head = b"".join(before)
    if head:
        taken = _begin(socket_fd, head)
        if taken < len(head):
            transport.write(head[taken:])
            transport.write(chunk.read())
            return
    sent = chunk.send(socket_fd)
    if sent < len(chunk):
        transport.write(chunk.read(sent))


def _begin(socket_fd: int, head: bytes) -> int:
    """Give the socket bytes that leave together with those that follow; how many it took.

    The few bytes before a slice would otherwise wake the client for themselves: that costs a third of the
    time that a megabyte takes.
    """
    borrowed = socket(AF_INET, SOCK_STREAM, 0, socket_fd)  # looks up nothing: the kernel knows what it is
    try:
        return borrowed.send(head, MSG_MORE | MSG_DONTWAIT)
    except OSError:  # full, or broken: the transport will see
        return 0
    finally:
        borrowed.detach()
