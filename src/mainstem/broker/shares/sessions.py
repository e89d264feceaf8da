"""Share sessions: which partitions a member reads, so that each request need only say what changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from mainstem.model.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

OPEN_EPOCH = 0
CLOSE_EPOCH = -1
MAX_EPOCH = 2**31 - 1
# Of all groups together. One that was not used for so long makes room.
MAX_SESSIONS = 2000
IDLE_MS = 120_000
MAX_PARTITIONS = 100_000  # of a session

Key: TypeAlias = tuple[bytes, int]  # topic id, partition


@dataclass(slots=True)
class ShareSession:
    epoch: int = 1  # the next request must have it
    used_ms: int = 0
    turn: int = 0  # which partition is looked at first, so that each gets its turn
    partitions: dict[Key, None] = field(default_factory=dict)

    def change(self, added: Iterable[Key], forgotten: Iterable[Key]) -> None:
        for key in forgotten:
            self.partitions.pop(key, None)
        for key in added:
            self.partitions[key] = None
            if len(self.partitions) > MAX_PARTITIONS:
                raise InvalidRequest(f"more than {MAX_PARTITIONS} partitions in a session")

    def in_turn(self) -> list[Key]:
        keys = list(self.partitions)
        at = self.turn % len(keys) if keys else 0
        self.turn += 1
        return keys[at:] + keys[:at]


class ShareSessions:
    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def use(self, group: str, member: str, epoch: int, now_ms: int) -> ShareSession:
        """The session that a request belongs to. Closing one leaves it to the caller to `remove` it."""
        if epoch == OPEN_EPOCH:
            return self._open(group, member, now_ms)
        session = self._sessions.get((group, member))
        if session is None:
            raise ShareSessionNotFound(f"{member[:100]} has no session")
        if epoch == CLOSE_EPOCH:
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"{epoch}, the session is at {session.epoch}")
        session.epoch = epoch + 1 if epoch < MAX_EPOCH else 1
        session.used_ms = now_ms
        return session

    def remove(self, group: str, member: str) -> None:
        self._sessions.pop((group, member), None)

    def _open(self, group: str, member: str, now_ms: int) -> ShareSession:
        key = (group, member)
        if key not in self._sessions and len(self._sessions) >= MAX_SESSIONS:
            idle = [one for one, session in self._sessions.items() if session.used_ms < now_ms - IDLE_MS]
            for one in idle:
                del self._sessions[one]
            if not idle:
                raise ShareSessionLimitReached(f"there are {len(self._sessions)} share sessions")
        self._sessions[key] = session = ShareSession(used_ms=now_ms)
        return session
