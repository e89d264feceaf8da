"""Random exchanges: each message to any one of the bindings, all with the same chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from mainstem.kernel.routing.binding import Binding
from mainstem.kernel.routing.hash_tree import lot


class RandomPick:
    """The picks look random but follow from their count alone, so that a run can be repeated."""

    __slots__ = ("_bindings", "_picks", "_places")
    varies: ClassVar[bool] = True
    varies_bare: ClassVar[bool] = True

    def __init__(self) -> None:
        self._bindings: list[Binding] = []
        self._places: dict[Binding, int] = {}
        self._picks = 0

    def check(self, binding: Binding) -> None:
        """Keys do not matter."""

    def add(self, binding: Binding) -> None:
        self._places[binding] = len(self._bindings)
        self._bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        place = self._places.pop(binding, None)
        if place is None:
            return
        last = self._bindings.pop()
        if last != binding:  # the last one takes the free place
            self._bindings[place] = last
            self._places[last] = place

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        if not self._bindings:
            return ()
        self._picks += 1
        return (self._bindings[int(lot(0, self._picks) * len(self._bindings))],)

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._bindings)
