"""Clicks of visitors of a web shop: most look around, some buy, the evening is busy."""

import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random

TOPIC = "clicks"
COUNT = 20_000
MINUTES = 60
# Where visitors go from a page, and how often; "" is away.
NEXT = {
    "/": {"/list": 6, "/search": 3, "": 1},
    "/list": {"/item": 7, "/list": 2, "": 1},
    "/search": {"/item": 5, "/search": 3, "": 2},
    "/item": {"/list": 5, "/basket": 2, "/item": 2, "": 2},
    "/basket": {"/thanks": 5, "/list": 2, "": 2},
    "/thanks": {"": 1},
}


def events(count: int, seed: int, until: datetime) -> Iterator[tuple[str, bytes]]:
    """Key and value of each click, in the order of their times; the last is at `until`, about."""
    chance = Random(seed)
    begin = until - timedelta(minutes=MINUTES)
    clicks: list[tuple[datetime, str, str]] = []
    while len(clicks) < count:
        at = begin + timedelta(minutes=MINUTES * _when(chance))
        visitor = f"v-{int(count / 12 * chance.random() ** 1.5):05d}"
        clicks += [click for click in _visit(chance, visitor, at) if click[0] <= until]
    for at, visitor, page in sorted(clicks)[-count:]:
        click = {"visitor": visitor, "page": page, "at": at.isoformat(timespec="milliseconds")}
        yield visitor, json.dumps(click).encode()


def _when(chance: Random) -> float:
    """0 to 1: visits come in waves."""
    while True:
        x = chance.random()
        if chance.random() < 0.6 + 0.4 * math.sin(9 * x):
            return x


def _visit(chance: Random, visitor: str, at: datetime) -> Iterator[tuple[datetime, str, str]]:
    page = chance.choice(("/", "/", "/search", "/item"))
    while page:
        yield at, visitor, page
        at += timedelta(seconds=min(2 + chance.expovariate(1 / 35), 240))
        page = chance.choices(list(NEXT[page]), list(NEXT[page].values()))[0]
