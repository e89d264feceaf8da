"""A promise that is looked at many times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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


def told(checks: Mapping[str, Check], promises: Mapping[str, str]) -> Iterator[Mapping[str, object]]:
    """Promise by promise, for people and machines."""
    for name, check in checks.items():
        yield {
            "promise": promises[name],
            "checked": check.checked,
            "broken": len(check.wrong),
            "findings": check.wrong[:100],
        }
