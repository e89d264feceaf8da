"""Long work in slices, so that other connections are served in between."""

from __future__ import annotations

import asyncio

SLICE_S = 0.003


class Slices:
    """One per piece of work. Ask `if slices.used_up(): await slices.rest()` between its steps."""

    __slots__ = ("_time", "_until")

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._until = self._time() + SLICE_S

    def used_up(self) -> bool:
        return self._time() >= self._until

    async def rest(self) -> None:
        await asyncio.sleep(0)
        self._until = self._time() + SLICE_S
