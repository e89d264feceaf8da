"""Places in a topic as people say them.

earliest, latest         the first message; the end
1234                     that offset
+100, -100               from where the group (or the end) is
10m ago, 2h ago, 3d ago  the first message since then; also 10m, 10 minutes ago
2031-05-04T12:00         the first message since then, local time unless it says otherwise
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from mainstem.model.errors import InvalidRequest

if TYPE_CHECKING:
    from mainstem.client import Client, TopicPartition

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {"second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d", "week": "w"}
_AGO = re.compile(rf"(\d+(?:\.\d+)?)\s*(?:({'|'.join(_UNITS_MS)})|({'|'.join(_WORDS)})s?)(?:\s*ago)?")
HELP = "earliest, latest, an offset, +N or -N, '10m ago', or a time like 2031-05-04T12:00"


@dataclass(frozen=True, slots=True)
class When:
    """One of: `edge` (earliest, latest), `offset`, `shift` or `time_ms`."""

    edge: str = ""
    offset: int | None = None
    shift: int | None = None
    time_ms: int | None = None


def parse_when(text: str, now_ms: int) -> When:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return When(edge=word)
    if re.fullmatch(r"[+-]\d+", word):
        return When(shift=int(word))
    if re.fullmatch(r"\d+", word):
        return When(offset=int(word))
    if found := _AGO.fullmatch(word):
        unit = found[2] or _WORDS[found[3]]
        return When(time_ms=now_ms - round(float(found[1]) * _UNITS_MS[unit]))
    try:
        return When(time_ms=round(datetime.fromisoformat(text.strip()).timestamp() * 1000))
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{text!r} is no place in a topic: use {HELP}") from None


def parse_time_ms(text: str, now_ms: int) -> int:
    """Where only a time makes sense."""
    found = parse_when(text, now_ms).time_ms
    if found is None:
        raise InvalidRequest(f"{text!r} is no time: use '10m ago', or a time like 2031-05-04T12:00")
    return found


def find_offsets(
    client: Client,
    places: Iterable[TopicPartition],
    when: When,
    current: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """The offset in each partition, within what it holds. A `shift` counts from `current`, else the end."""
    wanted = list(places)
    bounds = client.bounds(dict.fromkeys(place.topic for place in wanted))
    by_time = (
        client.offsets(dict.fromkeys(wanted, when.time_ms)) if wanted and when.time_ms is not None else {}
    )
    found: dict[TopicPartition, int] = {}
    for place in wanted:
        first, end = bounds[place]
        if when.edge:
            offset = first if when.edge == "earliest" else end
        elif when.offset is not None:
            offset = when.offset
        elif when.shift is not None:
            offset = (current or {}).get(place, end) + when.shift
        else:
            offset = by_time[place].offset
            offset = end if offset < 0 else offset  # nothing is that late: the end
        found[place] = min(max(offset, first), end)
    return found
