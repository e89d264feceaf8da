"""The exchanges and bindings of one namespace: which queues a message goes to.

Names alone: whether a queue exists, who may bind it and what is kept on disk is known elsewhere. A caller
that writes first and applies later asks `check_exchange` and `check_binding` before it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mainstem.kernel.routing.binding import EXCHANGE, NO_ARGUMENTS, QUEUE, Arguments, Binding, Target
from mainstem.kernel.routing.index import Index
from mainstem.kernel.routing.kinds import make_index
from mainstem.kernel.routing.multimap import MultiMap
from mainstem.model.errors import InvalidRequest, UnknownExchange

DEFAULT = ""  # the exchange that leads to each queue by its name; it is always there and has no bindings


@dataclass(slots=True)
class Exchange:
    name: str
    kind: str
    alternate: str | None  # takes what matches no binding here
    index: Index
    bindings: int = 0  # how many it is the source of


class Router:
    """`version` grows with every change: an answer kept from an older version may be wrong."""

    def __init__(self, is_queue: Callable[[str], bool]) -> None:
        self._is_queue = is_queue
        self._exchanges: dict[str, Exchange] = {}
        self._to_queue = MultiMap[str, Binding]()
        self._to_exchange = MultiMap[str, Binding]()
        self._varying: frozenset[str] | None = None  # found out when asked for
        self._varying_bare: frozenset[str] | None = None
        self.version = 0

    # --- exchanges -----------------------------------------------------------------------------

    def check_exchange(self, name: str, kind: str, arguments: Mapping[str, object] | None = None) -> None:
        """InvalidRequest if `add_exchange` would raise it."""
        self._new_index(name, kind, arguments)

    def add_exchange(
        self,
        name: str,
        kind: str,
        alternate: str | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        index = self._new_index(name, kind, arguments)
        self._exchanges[name] = Exchange(name, kind, alternate, index)
        self._changed(EXCHANGE)

    def _new_index(self, name: str, kind: str, arguments: Mapping[str, object] | None) -> Index:
        if name == DEFAULT or name in self._exchanges:
            raise InvalidRequest(f"exchange {name!r} exists")
        return make_index(kind, arguments or {})

    def set_alternate(self, name: str, alternate: str | None) -> None:
        self._exchange(name).alternate = alternate
        self._changed(EXCHANGE)

    def remove_exchange(self, name: str) -> list[Binding]:
        """It goes with the bindings from it and to it, which are returned."""
        exchange = self._exchange(name)
        gone = dict.fromkeys([*exchange.index, *self._to_exchange.get(name)])
        for binding in gone:
            self._drop(binding)
        del self._exchanges[name]
        self._changed(EXCHANGE)
        return list(gone)

    def __contains__(self, exchange: str) -> bool:
        return exchange == DEFAULT or exchange in self._exchanges

    # --- bindings ------------------------------------------------------------------------------

    def check_binding(
        self, source: str, target: Target, key: str = "", arguments: Mapping[str, object] | None = None
    ) -> Binding:
        """The binding as `bind` would make it; raises as `bind` would."""
        kind, name = target
        if source == DEFAULT or (kind == EXCHANGE and name == DEFAULT):
            raise InvalidRequest("the default exchange cannot be bound")
        exchange = self._exchange(source)
        if kind == EXCHANGE:
            target = Target(EXCHANGE, self._exchange(name).name)
        elif kind == QUEUE:
            target = Target(QUEUE, name)
        else:
            raise InvalidRequest(f"a binding leads to a queue or an exchange, not to a {kind!r}")
        binding = Binding(exchange.name, target, key, Arguments(arguments) if arguments else NO_ARGUMENTS)
        exchange.index.check(binding)
        return binding

    def bind(
        self, source: str, target: Target, key: str = "", arguments: Mapping[str, object] | None = None
    ) -> bool:
        """False if it was bound like that already. That the queue exists is for the caller to know."""
        binding = self.check_binding(source, target, key, arguments)
        if not self._by_target(binding).add(binding.target.name, binding):
            return False
        exchange = self._exchanges[source]
        exchange.index.add(binding)
        exchange.bindings += 1
        self._changed(binding.target.kind)
        return True

    def unbind(
        self, source: str, target: Target, key: str = "", arguments: Mapping[str, object] | None = None
    ) -> bool:
        """False if it was not bound like that."""
        given = Arguments(arguments) if arguments else NO_ARGUMENTS
        binding = Binding(source, Target(*target), key, given)
        if not self.is_bound(binding):
            return False
        self._drop(binding)
        return True

    def is_bound(self, binding: Binding) -> bool:
        return self._by_target(binding).contains(binding.target.name, binding)

    def remove_queue(self, name: str) -> list[Binding]:
        """All bindings to a queue go; they are returned, so that sources left without any can go too."""
        gone = self._to_queue.get(name)
        for binding in gone:
            self._drop(binding)
        return list(gone)

    def _drop(self, binding: Binding) -> None:
        self._by_target(binding).discard(binding.target.name, binding)
        exchange = self._exchanges[binding.source]
        exchange.index.remove(binding)
        exchange.bindings -= 1
        self._changed(binding.target.kind)

    def bindings(self) -> Iterator[Binding]:
        yield from self._to_queue
        yield from self._to_exchange

    def bindings_of(self, queue: str) -> list[Binding]:
        return list(self._to_queue.get(queue))

    def bindings_to(self, exchange: str) -> list[Binding]:
        return list(self._to_exchange.get(exchange))

    def bindings_from(self, source: str) -> list[Binding]:
        return list(self._exchange(source).index)

    def has_bindings(self, source: str) -> bool:
        return self._exchange(source).bindings > 0

    # --- routing -------------------------------------------------------------------------------

    def route(
        self, exchange: str, keys: Sequence[str], headers: Mapping[str, object] | None = None
    ) -> frozenset[str]:
        """Each queue once, however many ways lead there; UnknownExchange only for the first exchange.

        `headers` are Labels where an exchange may have to go by a property.
        """
        if exchange != DEFAULT:
            self._exchange(exchange)
        queues: set[str] = set()
        seen, todo = {exchange}, [exchange]
        while todo:
            for kind, name in self._next(todo.pop(), keys, {} if headers is None else headers):
                if kind == QUEUE:
                    queues.add(name)
                elif name not in seen:
                    seen.add(name)
                    todo.append(name)
        return frozenset(queues)

    def _next(self, name: str, keys: Sequence[str], headers: Mapping[str, object]) -> set[Target]:
        if name == DEFAULT:
            return {Target(QUEUE, key) for key in keys if self._is_queue(key)}
        exchange = self._exchanges.get(name)
        if exchange is None:  # an alternate that is not there (any more)
            return set()
        found = {binding.target for binding in exchange.index.match(keys, headers)}
        if not found and exchange.alternate is not None:
            found.add(Target(EXCHANGE, exchange.alternate))
        return found

    def depends_on_headers(self, exchange: str) -> bool:
        """Then an answer holds for this one message only, and may not be kept by its keys."""
        if self._varying is None:
            self._varying = self._leading_to(
                name for name, one in self._exchanges.items() if one.index.varies
            )
        return exchange in self._varying

    def picks_each(self, exchange: str) -> bool:
        """Then even messages without headers, and with the same keys, go different ways."""
        if self._varying_bare is None:
            self._varying_bare = self._leading_to(
                name for name, one in self._exchanges.items() if one.index.varies_bare
            )
        return exchange in self._varying_bare

    def _leading_to(self, names: Iterable[str]) -> frozenset[str]:
        """These exchanges, and all that lead to one of them."""
        todo = list(names)
        found = set(todo)
        falling_back = MultiMap[str, str]()
        for name, exchange in self._exchanges.items():
            if exchange.alternate is not None:
                falling_back.add(exchange.alternate, name)
        while todo:
            name = todo.pop()
            sources = {binding.source for binding in self._to_exchange.get(name)}
            new = sources.union(falling_back.get(name)) - found
            found |= new
            todo += new
        return frozenset(found)

    # --- helpers -------------------------------------------------------------------------------

    def _exchange(self, name: str) -> Exchange:
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise UnknownExchange(name)
        return exchange

    def _by_target(self, binding: Binding) -> MultiMap[str, Binding]:
        return self._to_queue if binding.target.kind == QUEUE else self._to_exchange

    def _changed(self, target_kind: str) -> None:
        self.version += 1
        if target_kind == EXCHANGE:
            self._varying = self._varying_bare = None
