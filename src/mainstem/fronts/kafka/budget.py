"""Memory for large requests: whoever announces one waits until there is room for it."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Claimant(Protocol):
    def granted(self, size: int) -> None: ...


class Budget:
    """First come, first served. One request is always let in, even if it is larger than the budget."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used = 0
        self._waiting: deque[tuple[Claimant, int]] = deque()

    def reserve(self, claimant: Claimant, size: int) -> bool:
        """True: receive it. False: `granted` will be called when there is room."""
        if self._fits(size) and not self._waiting:
            self._used += size
            return True
        if not any(waiting is claimant for waiting, _ in self._waiting):
            self._waiting.append((claimant, size))
        return False

    def release(self, claimant: Claimant, size: int) -> None:
        """Give back what was reserved (0: nothing), and a place in the line."""
        if not size and not self._waiting:
            return
        self._used -= size
        if any(waiting is claimant for waiting, _ in self._waiting):
            self._waiting = deque(pair for pair in self._waiting if pair[0] is not claimant)
        while self._waiting and self._fits(self._waiting[0][1]):
            waiting, wanted = self._waiting.popleft()
            self._used += wanted
            waiting.granted(wanted)

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._max_bytes
