"""What a run wants to have written down and the broker has not taken yet. Bounded: a run outlives its broker.

Of a status only the newest counts; of events the oldest are given up, and how many is said later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MAX_EVENTS = 1_000
MAX_BATCH_BYTES = 512 << 10  # below what a broker takes by default, with room for overhead


@dataclass(frozen=True, slots=True)
class Load:
    """What goes to the broker in one request."""

    statuses: dict[bytes, bytes]
    events: tuple[tuple[bytes, bytes], ...]


class Outbox:
    def __init__(self, max_events: int = MAX_EVENTS, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        self._statuses: dict[bytes, bytes] = {}
        self._events: deque[tuple[bytes, bytes]] = deque()
        self._max_events = max_events
        self._max_batch_bytes = max_batch_bytes
        self.lost = 0  # events that were given up

    def put_status(self, key: bytes, value: bytes) -> None:
        self._statuses[key] = value

    def put_event(self, key: bytes, value: bytes) -> None:
        self._events.append((key, value))
        if len(self._events) > self._max_events:
            self._events.popleft()
            self.lost += 1

    def __bool__(self) -> bool:
        return bool(self._statuses or self._events)

    def load(self) -> Load:
        """The next to send; it stays here until `sent` says that it is there."""
        events: list[tuple[bytes, bytes]] = []
        size = 0
        for key, value in self._events:
            size += len(key) + len(value)
            if events and size > self._max_batch_bytes:
                break
            events.append((key, value))
        return Load(dict(self._statuses), tuple(events))

    def sent(self, load: Load) -> None:
        for key, value in load.statuses.items():
            if self._statuses.get(key) == value:
                del self._statuses[key]
        for _ in load.events:
            self._events.popleft()
