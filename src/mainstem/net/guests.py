"""How many connections there are, over all listeners and from each address, and whether one more may stay."""

from __future__ import annotations


class Guests:
    def __init__(self, most: int = 10_000, most_per_peer: int = 10_000) -> None:
        self._most = most
        self._most_per_peer = most_per_peer
        self._count = 0
        self._per_peer: dict[str, int] = {}
        self._knocking = 0  # in their TLS handshake

    def came(self, host: str) -> str | None:
        """Count it in; the reason if it may not stay."""
        self._count += 1
        self._per_peer[host] = self._per_peer.get(host, 0) + 1
        return self._too_many(host, self._count, self._per_peer[host])

    def left(self, host: str) -> None:
        self._count -= 1
        self._per_peer[host] -= 1
        if not self._per_peer[host]:
            del self._per_peer[host]

    def may_knock(self, host: str) -> str | None:
        """The reason if there are too many already."""
        return self._too_many(host, self._count + self._knocking, self._per_peer.get(host, 0) + 1)

    def knocked(self, change: int) -> None:
        """One more, or one less, is in its handshake."""
        self._knocking += change

    def _too_many(self, host: str, count: int, of_peer: int) -> str | None:
        if count > self._most:
            return f"more than {self._most} connections"
        if of_peer > self._most_per_peer:
            return f"more than {self._most_per_peer} connections from {host}"
        return None
