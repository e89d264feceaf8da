"""Latencies of millions of messages in a few kilobytes: counts in buckets that grow by two percent."""

from __future__ import annotations

import math

GROWTH = 1.02
_PER_LOG = 1 / math.log(GROWTH)


class Latencies:
    """Times in microseconds go in, percentiles in milliseconds come out, exact to two percent."""

    def __init__(self) -> None:
        self.count = 0
        self.max_us = 0
        self._buckets: dict[int, int] = {}

    def add(self, time_us: int) -> None:
        """A clock that was set back makes a latency negative: it counts as none."""
        bucket = int(math.log(time_us) * _PER_LOG) + 1 if time_us > 0 else 0
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        if time_us > self.max_us:
            self.max_us = time_us

    def percentile_ms(self, percent: float) -> float:
        """The time that `percent` of all stayed within; 0 when nothing was measured."""
        wanted = math.ceil(self.count * percent / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return float(min(GROWTH**bucket, self.max_us)) / 1000 if bucket else 0.0
        return 0.0

    def summary_ms(self) -> dict[str, float]:
        return {
            "p50_ms": round(self.percentile_ms(50), 3),
            "p95_ms": round(self.percentile_ms(95), 3),
            "p99_ms": round(self.percentile_ms(99), 3),
            "max_ms": round(self.max_us / 1000, 3),
        }
