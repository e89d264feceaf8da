"""Figures as people read them, in few letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.filesize import decimal

from mainstem.pipeline.progress import DeadLetters, QueryProgress

BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = "-"
MOST_TOPICS = 5  # of dead letters, in one line


def number(value: int | None) -> str:
    return UNKNOWN if value is None or value < 0 else f"{value:,}"


def rate(per_s: float) -> str:
    return f"{per_s:,.1f}/s" if 0 < per_s < 10 else f"{per_s:,.0f}/s"


def rate_in(query: QueryProgress) -> str:
    return rate(query.input_rows_per_s) if query.input_rows >= 0 else UNKNOWN


def rate_out(query: QueryProgress) -> str:
    return rate(query.output_rows_per_s) if query.output_rows >= 0 else UNKNOWN


def dead_letters(some: Sequence[DeadLetters]) -> str:
    """`17 in orders.dead, 3 with the last batch; 1 in ...`; those with the most come first."""
    most = sorted(some, key=lambda one: (-one.records, one.topic))[:MOST_TOPICS]
    told = [
        f"{number(one.records)} in {printable(one.topic)}, {number(one.last)} with the last batch"
        for one in most
    ]
    return "; ".join(told + [f"{len(some) - len(most)} more topics"] * (len(some) > len(most)))


def duration(ms: float) -> str:
    """`850 ms`, `3.2 s`, `4m 10s`, `2h 05m`, `3d 04h`."""
    if ms < 1000:
        return f"{max(ms, 0):.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = int(ms // 1000)
    for small, big, factor in (("s", "m", 60), ("m", "h", 60)):
        if seconds < factor * 60:
            return f"{seconds // factor}{big} {seconds % factor:02d}{small}"
        seconds //= factor
    return f"{seconds // 24}d {seconds % 24:02d}h"


def event_time(at_ms: int | None) -> str:
    """In UTC, as pipelines compute."""
    if at_ms is None:
        return UNKNOWN
    try:
        return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def size(count: int) -> str:
    return decimal(count)


def state(rows: int, count: int) -> str:
    return f"{rows:,} rows, {size(count)}" if rows or count else UNKNOWN


def bars(values: Sequence[float]) -> str:
    top = max(values, default=0.0)
    if not top:
        return " " * len(values)
    return "".join(BARS[min(int(value / top * len(BARS)), len(BARS) - 1)] for value in values)


def printable(text: str) -> str:
    """Control characters spelled out: a log line cannot drive the reader's terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
