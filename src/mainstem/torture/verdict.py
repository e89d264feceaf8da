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


class Verdict:
    """Of several promises, by their short names."""

    def __init__(self, promises: Mapping[str, str]) -> None:
        self.promises = promises
        self.checks: Mapping[str, Check] = {name: Check() for name in promises}

    @property
    def is_good(self) -> bool:
        return not any(check.wrong for check in self.checks.values())

    def add(self, other: Verdict) -> None:
        for name, check in other.checks.items():
            self.checks[name].checked += check.checked
            self.checks[name].wrong.extend(check.wrong)

    def findings(self) -> list[str]:
        return [f"{name}: {text}" for name, check in self.checks.items() for text in check.wrong]


def told(checks: Mapping[str, Check], promises: Mapping[str, str]) -> Iterator[Mapping[str, object]]:
    """Promise by promise, for people and machines."""
    for name, check in checks.items():
        yield {
            "promise": promises[name],
            "checked": check.checked,
            "broken": len(check.wrong),
            "findings": check.wrong[:100],
        }
