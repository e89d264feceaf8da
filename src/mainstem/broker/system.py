"""The real clock and real chance, behind their ports."""

from __future__ import annotations

import secrets
import time
import uuid


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SystemChance:
    def uuid(self) -> bytes:
        return uuid.uuid4().bytes

    def token(self) -> str:
        return secrets.token_urlsafe(16)
