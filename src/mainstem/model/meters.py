"""Meters: any room counts here, only `observe` reads.

A meter is a plain object whose value is an attribute. Counting is one attribute add, on the event loop:

    PRODUCED = meters.counter("mainstem_produced_bytes", "Bytes that producers sent", "topic")
    ...
    self._bytes = PRODUCED.at(topic)      # once, when the owner is made
    self._bytes.value += len(batch)       # per batch

There are no locks. A meter is written by one thread only; the journal's writer thread has its own meters.
Readers may see a value that is one round old, never a torn one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

# Upper bounds in seconds, from a quick sync to a stuck disk.
LATENCY_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
)  # fmt: skip


class Counter:
    """Only ever grows: `value += n`, or `read` a number that its owner counts anyway."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value: int | float = 0
        self.read: Callable[[], int | float] | None = None

    def now(self) -> int | float:
        return self.value if self.read is None else self.read()


class Gauge:
    """Goes up and down: `value = n`, or `read` a function when somebody looks."""

    __slots__ = ("read", "value")

    def __init__(self) -> None:
        self.value: int | float = 0
        self.read: Callable[[], int | float] | None = None

    def now(self) -> int | float:
        return self.value if self.read is None else self.read()


class Histogram:
    """How observations spread: `counts[i]` of them were at most `bounds[i]`, the last had no bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


Meter = Counter | Gauge | Histogram
M = TypeVar("M", Counter, Gauge, Histogram)


class Family(Generic[M]):
    """One name with one meter per combination of label values; without labels, `at()` is the only one."""

    __slots__ = ("_make", "help", "kind", "labels", "members", "name")

    def __init__(
        self, name: str, help_text: str, kind: str, labels: tuple[str, ...], make: Callable[[], M]
    ) -> None:
        self.name, self.help, self.kind, self.labels = name, help_text, kind, labels
        self.members: dict[tuple[str, ...], M] = {}
        self._make: Callable[[], M] = make

    def at(self, *values: str) -> M:
        """The meter with these label values, made on first use. Keep it: this is a look-up."""
        found = self.members.get(values)
        if found is None:
            if len(values) != len(self.labels):
                raise ValueError(f"{self.name} has labels {self.labels}, not {len(values)} values")
            found = self.members[values] = self._make()
        return found

    def drop(self, *values: str) -> None:
        """Forget a meter whose subject is gone (a deleted topic, a closed listener)."""
        self.members.pop(values, None)


AnyFamily = Family[Counter] | Family[Gauge] | Family[Histogram]


class Meters:
    """A registry. A broker has one, so that two brokers in one process do not share counts."""

    def __init__(self) -> None:
        self._families: dict[str, AnyFamily] = {}

    def counter(self, name: str, help_text: str, *labels: str) -> Family[Counter]:
        """Asking twice for one name gives the same family. Names end without `_total`."""
        return self._add(Family(name, help_text, "counter", labels, Counter))

    def gauge(self, name: str, help_text: str, *labels: str) -> Family[Gauge]:
        return self._add(Family(name, help_text, "gauge", labels, Gauge))

    def histogram(
        self, name: str, help_text: str, *labels: str, bounds: Sequence[float] = LATENCY_SECONDS
    ) -> Family[Histogram]:
        return self._add(Family(name, help_text, "histogram", labels, lambda: Histogram(bounds)))

    def __iter__(self) -> Iterator[AnyFamily]:
        return iter(sorted(self._families.values(), key=lambda family: family.name))

    def _add(self, family: Family[M]) -> Family[M]:
        known = self._families.setdefault(family.name, family)
        if (known.kind, known.labels) != (family.kind, family.labels):
            raise ValueError(f"{family.name} exists as {known.kind} with labels {known.labels}")
        return known  # type: ignore[return-value]  # same kind, so same type
