"""Spark's own report of a batch (`json.loads(StreamingQueryProgress.json)`) as our QueryProgress.

Rates: Spark divides by the time since the batch before, and says 0 for a first batch; there the time of the
batch itself is all there is to divide by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mainstem.pipeline.counting import COUNTED, UNKNOWN_ROWS
from mainstem.pipeline.progress import QueryProgress

NO_WATERMARK_MS = 0  # Spark begins at 1970


def progress_of(progress: Mapping[str, Any], name: str, written: int | None = None) -> QueryProgress:
    """`name` is that of the pipeline's part, `written` the rows that a job has written by itself.

    Fields that Spark leaves out are taken for nothing.
    """
    batch_ms = int(progress.get("batchDuration") or 0)
    rows_in = int(progress.get("numInputRows") or 0)
    rows_out = _rows_out(progress) if written is None else written
    since_ms = _interval_ms(rows_in, _number(progress.get("inputRowsPerSecond")), batch_ms)
    states: Sequence[Mapping[str, Any]] = progress.get("stateOperators") or ()
    watermark_ms = _time_ms((progress.get("eventTime") or {}).get("watermark"))
    return QueryProgress(
        query=name,
        batch=int(progress.get("batchId", 0)),
        at_ms=(_time_ms(progress.get("timestamp")) or 0) + batch_ms,
        input_rows=rows_in,
        input_rows_per_s=_rate(rows_in, since_ms),
        output_rows=rows_out if rows_out >= 0 else UNKNOWN_ROWS,
        output_rows_per_s=_rate(max(rows_out, 0), since_ms),
        batch_ms=batch_ms,
        lag=_lag(progress.get("sources") or ()),
        watermark_ms=watermark_ms if watermark_ms != NO_WATERMARK_MS else None,
        late_rows=sum(int(state.get("numRowsDroppedByWatermark") or 0) for state in states),
        state_rows=sum(int(state.get("numRowsTotal") or 0) for state in states),
        state_bytes=sum(int(state.get("memoryUsedBytes") or 0) for state in states),
    )


def is_idle(progress: Mapping[str, Any]) -> bool:
    """Whether the trigger found nothing to do, and gave nothing to the sink.

    Rows in do not tell that: a batch without any may close windows. The steps that Spark has timed do.
    """
    steps = progress.get("durationMs") or {}
    return bool(steps) and "addBatch" not in steps


def topics_read(progress: Mapping[str, Any]) -> set[str]:
    """By all sources that are topics."""
    ends = (_positions(source.get("endOffset")) for source in progress.get("sources") or ())
    return {topic for end in ends for topic, _ in end or ()}


def _rows_out(progress: Mapping[str, Any]) -> int:
    """Spark does not count what goes into a Python sink; what was counted on the way is right."""
    if is_idle(progress):
        return 0  # Spark says -1 until the first batch after a start, and of some sinks always
    counted = (progress.get("observedMetrics") or {}).get(COUNTED)
    if counted:
        return int(counted["rows"])
    return int((progress.get("sink") or {}).get("numOutputRows", UNKNOWN_ROWS))


def _interval_ms(rows: int, rows_per_s: float, batch_ms: int) -> float:
    """What Spark divided by: to have the rows that went out per second of the same time."""
    return rows * 1000 / rows_per_s if rows and rows_per_s else float(batch_ms)


def _rate(rows: int, ms: float) -> float:
    return round(rows * 1000 / ms, 1) if ms else 0.0


def _number(value: object) -> float:
    """NaN and infinity come as text, or not at all."""
    return float(value) if isinstance(value, int | float) and 0 <= value < float("inf") else 0.0


def _time_ms(text: object) -> int | None:
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)


def _lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Of all sources that tell where they are and how much there is; None if none does."""
    known = [
        sum(max(0, there - end.get(place, 0)) for place, there in latest.items())
        for source in sources
        if (latest := _positions(source.get("latestOffset"))) is not None
        and (end := _positions(source.get("endOffset"))) is not None
    ]
    return sum(known) if known else None


def _positions(value: object) -> dict[tuple[str, str], int] | None:
    """`{"orders": {"0": 17}}`, also as text; None for what is none, such as another source's number."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict):
        return None
    found: dict[tuple[str, str], int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            return None
        for index, offset in partitions.items():
            if not isinstance(offset, int):
                return None
            found[topic, index] = offset
    return found
