"""What every kind of exchange can do: hold bindings, and say which of them a message matches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from mainstem.kernel.routing.binding import Binding
from mainstem.kernel.routing.multimap import MultiMap


class Index(Protocol):
    """The bindings of one exchange. The router sees to it that none is added twice."""

    @property
    def varies(self) -> bool:
        """The answer depends on more than the keys, so it must not be kept by key."""

    @property
    def varies_bare(self) -> bool:
        """Even among messages that have no headers."""

    def check(self, binding: Binding) -> None:
        """InvalidRequest if this kind of exchange cannot have such a binding."""

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        """The same binding may come more than once."""

    def __iter__(self) -> Iterator[Binding]: ...


class Direct:
    """The message's key is the binding's key."""

    __slots__ = ("_by_key",)
    varies: ClassVar[bool] = False
    varies_bare: ClassVar[bool] = False

    def __init__(self) -> None:
        self._by_key = MultiMap[str, Binding]()

    def check(self, binding: Binding) -> None:
        """Every key will do."""

    def add(self, binding: Binding) -> None:
        self._by_key.add(binding.key, binding)

    def remove(self, binding: Binding) -> None:
        self._by_key.discard(binding.key, binding)

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        for key in keys:
            yield from self._by_key.get(key)

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._by_key)


class Fanout:
    """Every message goes to every binding."""

    __slots__ = ("_bindings",)
    varies: ClassVar[bool] = False
    varies_bare: ClassVar[bool] = False

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def check(self, binding: Binding) -> None:
        """Keys do not matter."""

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        self._bindings.pop(binding, None)

    def match(self, keys: Sequence[str], headers: Mapping[str, object]) -> Iterable[Binding]:
        return self._bindings

    def __iter__(self) -> Iterator[Binding]:
        return iter(self._bindings)
