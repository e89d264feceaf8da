"""Ways that messages of a connection went before: checked and routed once, until rules or topology change."""

from __future__ import annotations

from mainstem.broker.access import Access
from mainstem.broker.queues import Queues, Route

# Beyond it they are looked up anew.
MAX_WAYS = 2_000


class Ways:
    """By exchange and key as they came. For messages that nobody looks at, to queues without limits."""

    __slots__ = ("_access", "_book", "_routes", "_rules", "_topology")

    def __init__(self, queues: Queues, access: Access) -> None:
        self._book = queues.book
        self._access = access
        self._topology = -1
        self._rules = -1
        self._routes: dict[bytes, Route] = {}

    def find(self, way: bytes) -> Route | None:
        if self._topology != self._book.version or self._rules != self._access.version:
            self._topology, self._rules = self._book.version, self._access.version
            self._routes.clear()
        return self._routes.get(way)

    def keep(self, way: bytes, route: Route) -> None:
        """One that was found just now."""
        if len(self._routes) >= MAX_WAYS:
            self._routes.clear()
        self._routes[way] = route
