"""What the verbs that look into the book of pipelines share: a time, a duration, a status for machines."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mainstem.pipeline.progress import RunStatus


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def local_time(at_ms: int) -> str:
    """As the clock on this machine's wall shows it, and how far that is from UTC."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return "-"


def status_for_machines(status: RunStatus, now_ms: int) -> dict[str, Any]:
    """All that was said; `state` also knows `lost`, and `lag` is that of all queries."""
    import msgspec

    from mainstem.pipeline.book_records import shown_state, total_lag

    facts: dict[str, Any] = msgspec.to_builtins(status)
    return facts | {"state": shown_state(status, now_ms), "lag": total_lag(status)}
