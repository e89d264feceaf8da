"""Write an answer's chunks to a connection: small ones together, slices of files past this process."""

from __future__ import annotations

import asyncio

from mainstem.model.slices import Chunk, FileSlice

# Answers up to this size together are joined into one write.
SMALL_WRITE = 64 << 10


def plain_socket(transport: asyncio.Transport) -> int:
    """The descriptor that may be written to while the transport holds nothing back; -1 if none may."""
    socket = transport.get_extra_info("socket")
    if socket is None or transport.get_extra_info("sslcontext") is not None:
        return -1
    return int(socket.fileno())


def send(transport: asyncio.Transport, socket_fd: int, chunks: list[Chunk]) -> None:
    """In order. What the socket does not take now is read into memory and left to the transport."""
    small: list[bytes | bytearray | memoryview] = []
    size = 0
    for chunk in chunks:
        if isinstance(chunk, FileSlice):
            _flush(transport, small)
            _send_slice(transport, socket_fd, chunk)
            size = 0
            continue
        size += len(chunk)
        if size > SMALL_WRITE:
            _flush(transport, small)
            size = len(chunk)
        small.append(chunk)
    _flush(transport, small)


def _flush(transport: asyncio.Transport, small: list[bytes | bytearray | memoryview]) -> None:
    if small:
        transport.write(small[0] if len(small) == 1 else b"".join(small))
        small.clear()


def _send_slice(transport: asyncio.Transport, socket_fd: int, chunk: FileSlice) -> None:
    sent = 0
    if socket_fd >= 0 and not transport.get_write_buffer_size():
        sent = chunk.send(socket_fd)
    if sent < len(chunk):
        transport.write(chunk.read(sent))
