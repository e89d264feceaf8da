"""Write an answer's chunks to a connection: small ones together, slices of files past this process."""

from __future__ import annotations

import asyncio

from mainstem.model.ports import Buffer
from mainstem.model.slices import Chunk, FileSlice

# Answers below this size together are joined into one write. A slice is never below it.
SMALL_WRITE = 64 << 10


def plain_socket(transport: asyncio.Transport) -> int:
    """The descriptor that may be written to while the transport holds nothing back; -1 if none may."""
    found = transport.get_extra_info("socket")
    if found is None or transport.get_extra_info("sslcontext") is not None:
        return -1
    return int(found.fileno())


def send(transport: asyncio.Transport, socket_fd: int, chunks: list[Chunk]) -> None:
    """In order. What the socket does not take now is read into memory and left to the transport."""
    if sum(map(len, chunks)) < SMALL_WRITE:
        _write(transport, chunks)  # type: ignore[arg-type]  # there is no slice among them
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
    # On its own, though it is small: the client wakes up while the rest is on its way.
    _write(transport, before)
    sent = 0 if socket_fd < 0 or transport.get_write_buffer_size() else chunk.send(socket_fd)
    if sent < len(chunk):
        transport.write(chunk.read(sent))
