"""Calls from other threads to the loop's, in order: as `call_soon_threadsafe`, at a lower price.

asyncio wakes itself through a pair of sockets, each time, and reads until there is nothing more to read.
Every round of the journal would pay that. A counter of the kernel (eventfd) is rung and read once for all
that waits.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Any

from mainstem.model.logs import get_log

events = get_log(__name__)


class Doorbell:
    """`post` is for any thread, the rest for the loop's own. Without an eventfd, asyncio's way is used."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[[Any], object], Any]] = deque()
        self._rung = False
        self._fd = -1
        if hasattr(os, "eventfd"):
            self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            loop.add_reader(self._fd, self._answer)

    def post(self, function: Callable[[Any], object], argument: Any) -> None:
        """Run function(argument) on the loop's thread."""
        self._calls.append((function, argument))
        # After the call is in line: whoever answers says that it is silent before it looks at the line.
        if not self._rung:
            self._rung = True
            if self._fd >= 0:
                os.eventfd_write(self._fd, 1)
            elif not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self.deliver)

    def _answer(self) -> None:
        os.eventfd_read(self._fd)
        self.deliver()

    def deliver(self) -> None:
        """Make the calls that are in line now."""
        self._rung = False
        for _ in range(len(self._calls)):
            function, argument = self._calls.popleft()
            try:
                function(argument)
            except Exception as error:  # who failed has seen to it; the others are called all the same
                events.error("a call from another thread failed", error=error)

    def close(self) -> None:
        """Once nobody posts any more; what is still in line is not called."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            self._loop.remove_reader(fd)
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:  # of a loop that was left as it was
            os.close(self._fd)
