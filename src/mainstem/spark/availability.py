"""What PySpark calls the amount that one trigger takes, in the versions that know of it (4.3) and before."""

from __future__ import annotations

from typing import Any

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before 4.3: a trigger takes what `latestOffset` says
    ReadAllAvailable = ReadMaxRows = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Its absence makes one unlimited batch of it."""


__all__ = ["ReadLimit", "SupportsTriggerAvailableNow", "default_limit", "rows_of"]

ReadLimit = Any


def default_limit(max_rows: int | None) -> ReadLimit:
    return ReadAllAvailable() if max_rows is None else ReadMaxRows(max_rows)


def rows_of(limit: ReadLimit | None, max_rows: int | None) -> int | None:
    """How many rows a trigger may take; None for all there are."""
    if limit is None:
        return max_rows
    return getattr(limit, "max_rows", None)
