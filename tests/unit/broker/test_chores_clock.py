"""The care for files goes by a clock that nobody sets back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from mainstem.broker.chores import Chores


def test_upkeep_ticks_with_time_that_only_goes_on():
    ticks: list[int] = []
    chores = Chores.__new__(Chores)
    chores._clock = SimpleNamespace(now_ms=lambda: 5, monotonic_ms=lambda: 1000 + len(ticks))
    chores._upkeep = SimpleNamespace(tick=lambda now_ms: ticks.append(now_ms) or len(ticks) < 3)
    asyncio.run(chores._care_for_files())
    assert ticks == [1000, 1001, 1002]
