"""Bytes that are named instead of read: a stretch of a file on its way to a socket."""

from __future__ import annotations

from mainstem.model.errors import CorruptFile
from mainstem.model.ports import Buffer, File


class FileSlice:
    """`size` bytes of a file from `position` on. It keeps the file readable, even if it is deleted."""

    __slots__ = ("_file", "_position", "_size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def send(self, socket_fd: int) -> int:
        """Pass it on to a socket; how many of its bytes that took, from the first on."""
        sent = 0
        while sent < self._size:
            took = self._file.send(socket_fd, self._size - sent, self._position + sent)
            if took <= 0:
                break
            sent += took
        return sent

    def read(self, start: int = 0, size: int = -1) -> bytes:
        """Its bytes from `start` on, to the end or `size` of them."""
        wanted = self._size - start if size < 0 else size
        data = self._file.pread(wanted, self._position + start)
        if len(data) != wanted:
            raise CorruptFile(self._file.path, self._position, "the file ends within a batch")
        return data


# What an answer is made of.
Chunk = Buffer | FileSlice
