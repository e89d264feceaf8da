"""How long a message waits before it is delivered again: the delay of its n-th redelivery, from 1 on."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Protocol

from mainstem.model.errors import InvalidConfig

MAX_DELAY_MS = 10 * 365 * 24 * 3600 * 1000  # ten years


class Backoff(Protocol):
    def delay_ms(self, redelivery: int) -> int: ...


@dataclass(frozen=True)
class Fixed:
    """The same each time; 0 is at once."""

    every_ms: int

    def __post_init__(self) -> None:
        _check(self.every_ms)

    def delay_ms(self, redelivery: int) -> int:
        return self.every_ms


@dataclass(frozen=True)
class Steps:
    """One after the other; the last one from then on."""

    steps_ms: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.steps_ms:
            raise InvalidConfig("a list of delays needs at least one")
        for delay_ms in self.steps_ms:
            _check(delay_ms)

    def delay_ms(self, redelivery: int) -> int:
        return self.steps_ms[min(max(redelivery, 1), len(self.steps_ms)) - 1]


@dataclass(frozen=True)
class Exponential:
    """`factor` times longer each time, up to `cap_ms`."""

    first_ms: int
    cap_ms: int
    factor: float = 2.0

    def __post_init__(self) -> None:
        _check(self.first_ms)
        _check(self.cap_ms)
        if self.cap_ms < self.first_ms:
            raise InvalidConfig(
                f"the longest delay ({self.cap_ms} ms) is below the first ({self.first_ms} ms)"
            )
        if not 1.0 <= self.factor <= 1000.0:
            raise InvalidConfig(f"a delay can grow by a factor of 1 to 1000, not {self.factor}")

    def delay_ms(self, redelivery: int) -> int:
        times = max(redelivery, 1) - 1
        if not self.first_ms:
            return 0
        # Compared as logarithms: the power itself has no bound.
        if times * log(self.factor) >= log(self.cap_ms / self.first_ms):
            return self.cap_ms
        return min(int(self.first_ms * self.factor**times), self.cap_ms)


def _check(delay_ms: int) -> None:
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise InvalidConfig(f"a delay is 0 to {MAX_DELAY_MS} ms, not {delay_ms}")
