"""Gauges of a few hosts: latency and load, and one host that is slow for a while."""

import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

TOPIC = "gauges"
COUNT = 20_000
MINUTES = 60
HOSTS = ("web-1", "web-2", "db-1")
METRICS = ("latency_ms", "load")
SLOW = (0.55, 0.7)  # when, as parts of the whole, web-2 is slow


def events(count: int, seed: int, until: datetime) -> Iterator[tuple[str, bytes]]:
    """Key and value of each sample, in the order of their times; the last is at `until`."""
    chance = Random(seed)
    begin = until - timedelta(minutes=MINUTES)
    for number in range(1, count + 1):
        part = number / count
        host, metric = chance.choice(HOSTS), chance.choice(METRICS)
        sample = {
            "host": host,
            "metric": metric,
            "value": round(_value(chance, host, metric, part), 2),
            "at": (begin + part * (until - begin)).isoformat(timespec="milliseconds"),
        }
        yield host, json.dumps(sample).encode()


def _value(chance: Random, host: str, metric: str, part: float) -> float:
    slow = 4.0 if host == "web-2" and SLOW[0] < part < SLOW[1] else 1.0
    busy = 1 + 0.4 * math.sin(8 * part)
    if metric == "load":
        return 100 * min(1.0, chance.betavariate(4, 12) * busy * math.sqrt(slow))
    usual = 4.0 if host == "db-1" else 20.0
    return usual * busy * slow * chance.lognormvariate(0, 0.5)
