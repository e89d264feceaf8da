"""How much clients move at present: a merge costs about as much as the writing did, and can be done later."""

from __future__ import annotations

from mainstem.kernel.log.log import Log

# What is moved is counted over this time at least.
_RATE_MS = 1000


class Traffic:
    """Asked on the owner's thread; `note` is called about once a second."""

    def __init__(self, log: Log, quiet_bytes_per_s: int) -> None:
        self._log = log
        self._quiet_bytes_per_s = quiet_bytes_per_s
        self._from_ms, self._from_bytes = 0, self._bytes_moved()
        self.is_quiet = True

    def note(self, now_ms: int) -> None:
        passed_ms = now_ms - self._from_ms
        if passed_ms >= _RATE_MS:
            moved = self._bytes_moved()
            rate = (moved - self._from_bytes) * 1000 / passed_ms
            self.is_quiet = rate < self._quiet_bytes_per_s
            self._from_ms, self._from_bytes = now_ms, moved

    def _bytes_moved(self) -> int:
        """What clients wrote, and a share of what they read: a byte read costs about a quarter as much."""
        return self._log.bytes_written + self._log.bytes_sent // 4
