"""Long work in slices, so that other connections are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

SLICE_S = 0.003
# Where the check of what a request names and its entry in the journal belong together, nobody is served in
# between, so a request may name only so many.
MOST_IN_ONE_TURN = 100_000


class Slices:
    """One per piece of work. Ask `if slices.used_up(): await slices.rest()` between its steps.

    A request's work is one piece: the parts of many small topics share what one large topic has for itself.
    """

    __slots__ = ("_time", "_until")

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._until = self._time() + SLICE_S

    def used_up(self) -> bool:
        return self._time() >= self._until

    async def each(self, work: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """What `work` makes of each item. Others may change things between two of them."""
        made: list[B] = []
        for item in items:
            made.append(work(item))
            if self.used_up():
                await self.rest()
        return made

    async def each_awaited(self, work: Callable[[A], Awaitable[B]], items: Iterable[A]) -> list[B]:
        """As `each`, for work that may have to wait."""
        made: list[B] = []
        for item in items:
            made.append(await work(item))
            if self.used_up():
                await self.rest()
        return made

    async def rest(self) -> None:
        await asyncio.sleep(0)
        self._until = self._time() + SLICE_S
