"""A promise that is looked at many times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Check:
    """One promise: how often it was looked at, and where it was broken."""

    checked: int = 0
    wrong: list[str] = field(default_factory=list)

    def __call__(self, holds: bool, say: Callable[[], str]) -> None:
        self.checked += 1
        if not holds:
            self.wrong.append(say())
