"""Memory for large requests and large answers, over all connections.

Whoever announces a large request waits until there is room for it. Answers never wait, they get smaller: a
client that does not read what it asked for may not keep others from reading.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol


class Claimant(Protocol):
    def granted(self, size: int) -> None: ...


class Budget:
    """First come, first served. One request is always let in, even if it is larger than the budget."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used = 0
        # In order of asking. Not a deque: thousands may wait, and those who hang up leave from the middle.
        self._waiting: OrderedDict[Claimant, int] = OrderedDict()

    def reserve(self, claimant: Claimant, size: int) -> bool:
        """True: receive it. False: `granted` will be called when there is room."""
        # Once for nearly every request of a busy producer: as few calls as can be.
        used = self._used + size
        if (used <= self._max_bytes or used == size) and not self._waiting:
            self._used = used
            return True
        self._waiting.setdefault(claimant, size)
        return False

    def take(self, size: int) -> None:
        """Count what is in memory already."""
        self._used += size

    def take_if_free(self, size: int) -> bool:
        """The same, unless there is no room or somebody waits for it."""
        if self._waiting or not self._fits(size):
            return False
        self._used += size
        return True

    @property
    def is_short(self) -> bool:
        """Somebody waits for room."""
        return bool(self._waiting)

    @property
    def lacking(self) -> int:
        """What must be given back before the first in line may come in."""
        if not self._waiting:
            return 0
        return min(self._used + next(iter(self._waiting.values())) - self._max_bytes, self._used)

    def leave(self, claimant: Claimant) -> None:
        """Give up a place in the line, if there is one."""
        if self._waiting.pop(claimant, None) is not None:
            self.release(0)  # who stood behind it may fit

    def release(self, size: int) -> None:
        """Give back what was reserved."""
        self._used -= size
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._fits(next(iter(self._waiting.values()))):
            waiting, wanted = self._waiting.popitem(last=False)
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
