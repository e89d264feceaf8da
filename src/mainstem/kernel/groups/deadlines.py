"""Many deadlines, most of them moved later again and again before they fire.

A heartbeat moves its member's deadline; putting each move on a heap would fill it with stale entries. So a
key has one entry on the heap, at or before its true deadline, which is put right when it comes to the top.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K", str, tuple[str, str])


class Deadlines(Generic[K]):
    def __init__(self) -> None:
        self._at_ms: dict[K, int] = {}  # the truth
        self._queued_ms: dict[K, int] = {}  # a key's one valid heap entry; others of it are leftovers
        self._heap: list[tuple[int, K]] = []

    def set(self, key: K, at_ms: int) -> None:
        self._at_ms[key] = at_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or at_ms < queued_ms:
            self._queued_ms[key] = at_ms
            heappush(self._heap, (at_ms, key))

    def clear(self, key: K) -> None:
        """Leftovers on the heap keep their keys in memory: there are to be no more of them than deadlines."""
        if self._at_ms.pop(key, None) is not None and len(self._heap) > 2 * len(self._at_ms):
            self._queued_ms = dict(self._at_ms)
            self._heap = [(at_ms, one) for one, at_ms in self._at_ms.items()]
            heapify(self._heap)

    def next_ms(self) -> int | None:
        while self._heap:
            queued_ms, key = self._heap[0]
            if self._queued_ms.get(key) != queued_ms:
                heappop(self._heap)
                continue
            at_ms = self._at_ms.get(key)
            if at_ms == queued_ms:
                return at_ms
            if at_ms is None:
                del self._queued_ms[key]
                heappop(self._heap)
            else:
                self._queued_ms[key] = at_ms
                heapreplace(self._heap, (at_ms, key))
        return None

    def due(self, now_ms: int) -> list[K]:
        """Take all keys whose deadline has come, earliest first."""
        keys: list[K] = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            key = self._heap[0][1]
            self.clear(key)
            keys.append(key)
        return keys
