"""A dict of sets that costs no set where there is only one value: the usual case among 100,000 bindings."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


class MultiMap(Generic[K, V]):
    """Values of a key come in the order in which they were added."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        # A dict with None for values is a set that keeps its order. A value itself is no dict and not None.
        self._values: dict[K, V | dict[V, None]] = {}

    def add(self, key: K, value: V) -> bool:
        """False if it was there already."""
        there = self._values.get(key)
        if there is None:
            self._values[key] = value
            return True
        if not isinstance(there, dict):
            if there == value:
                return False
            self._values[key] = {there: None, value: None}
            return True
        before = len(there)
        there[value] = None
        return len(there) > before

    def discard(self, key: K, value: V) -> None:
        there = self._values.get(key)
        if isinstance(there, dict):
            there.pop(value, None)
            if len(there) == 1:
                self._values[key] = next(iter(there))
        elif there == value:
            del self._values[key]

    def get(self, key: K) -> tuple[V, ...]:
        there = self._values.get(key)
        if there is None:
            return ()
        return tuple(there) if isinstance(there, dict) else (there,)

    def contains(self, key: K, value: V) -> bool:
        there = self._values.get(key)
        return value in there if isinstance(there, dict) else there == value

    def count(self, key: K) -> int:
        there = self._values.get(key)
        if there is None:
            return 0
        return len(there) if isinstance(there, dict) else 1

    def __iter__(self) -> Iterator[V]:
        """Every value of every key."""
        for there in self._values.values():
            if isinstance(there, dict):
                yield from there
            else:
                yield there
