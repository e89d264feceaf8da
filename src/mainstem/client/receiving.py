"""Memory for large answers, used again once nobody holds what the last ones brought.

New memory has to be found by the system and filled with zeros, which costs about as much as receiving into
it does.
"""

from __future__ import annotations

from sys import getrefcount

# Below this it is not worth looking; above, memory is not kept for what seldom comes.
LARGE_BYTES = 1 << 20
LARGEST_BYTES = 16 << 20
# A reader holds one answer while the next one comes.
_KEPT = 2


class ReceiveMemory:
    """For one connection."""

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []
        self._free = 0  # references to a buffer that nobody holds

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self._buffers))

    def take(self, size: int) -> memoryview:
        """So many bytes, with anything in them. They are the caller's as long as any part of them is held."""
        if not LARGE_BYTES <= size <= LARGEST_BYTES:
            return memoryview(bytearray(size))
        for index in range(len(self._buffers)):
            if len(self._buffers[index]) >= size and getrefcount(self._buffers[index]) == self._free:
                return memoryview(self._buffers[index])[:size]
        # Answers of one reader are about alike.
        self._buffers = [*self._buffers[1 - _KEPT :], bytearray(size + size // 8)]
        self._free = getrefcount(self._buffers[-1])
        return memoryview(self._buffers[-1])[:size]
