"""Memory for large requests and large answers, over all connections.

Whoever announces a large request waits until there is room for it. Answers never wait, they get smaller: a
client that does not read what it asked for may not keep others from reading.
"""

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

    def leave(self, claimant: Claimant) -> None:
        """Give up a place in the line, if there is one."""
        if any(waiting is claimant for waiting, _ in self._waiting):
            self._waiting = deque(pair for pair in self._waiting if pair[0] is not claimant)
            self.release(0)  # who stood behind it may fit

    def release(self, size: int) -> None:
        """Give back what was reserved."""
        self._used -= size
        while self._waiting and self._fits(self._waiting[0][1]):
            waiting, wanted = self._waiting.popleft()
            self._used += wanted
            waiting.granted(wanted)

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._max_bytes


class AnswerRoom:
    """Bytes of answers that are made and not sent yet, over all connections of a listener."""

    SMALLEST = 64 << 10

    def __init__(self, max_bytes: int = 128 << 20) -> None:
        self.max_bytes = max_bytes
        self.held = 0
        self.messages_bytes = 0  # of batches handed out since start

    def allowed(self, asked: int) -> int:
        """How large one more answer may be: half of what is left, and always a little."""
        return min(asked, max((self.max_bytes - self.held) // 2, self.SMALLEST))

    @property
    def is_full(self) -> bool:
        return self.held >= self.max_bytes
