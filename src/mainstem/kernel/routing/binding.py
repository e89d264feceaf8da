"""Bindings: what leads from an exchange to a queue or to another exchange."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from mainstem.kernel.routing.exact import exact

QUEUE: Literal["queue"] = "queue"
EXCHANGE: Literal["exchange"] = "exchange"


class Target(NamedTuple):
    """Where a binding leads. Equal to the plain tuple, so that either may be used."""

    kind: Literal["queue", "exchange"]
    name: str


class Arguments(Mapping[str, object]):
    """The arguments of a binding; equal only if names, values and types are, and fit for a set."""

    __slots__ = ("_values", "exact")

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)
        # By name, so that it does not matter in which order they came.
        self.exact = tuple((name, exact(self._values[name])) for name in sorted(self._values))

    def __getitem__(self, name: str) -> object:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Arguments):
            return self.exact == other.exact
        return isinstance(other, Mapping) and self.exact == Arguments(other).exact

    def __hash__(self) -> int:
        return hash(self.exact)

    def __repr__(self) -> str:
        return f"Arguments({self._values!r})"


NO_ARGUMENTS = Arguments({})  # one for all: most bindings have none


class Binding(NamedTuple):
    """Two bindings are one if all of this is equal; the same queue may be bound with several keys."""

    source: str
    target: Target
    key: str
    arguments: Arguments = NO_ARGUMENTS
