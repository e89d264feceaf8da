"""What PySpark 4.2 brought to streams, for versions that lack it: names that nobody calls there.

Before 4.2 Spark neither tells a source where a trigger starts nor how much it may take. Before 4.1 it has no
filters for sources, and gives rows to a stream's writer.
"""

from __future__ import annotations

from dataclasses import dataclass


class ReadLimit:
    """How much a trigger takes."""


@dataclass(frozen=True)
class ReadAllAvailable(ReadLimit):
    pass


@dataclass(frozen=True)
class ReadMaxRows(ReadLimit):
    max_rows: int


@dataclass(frozen=True)
class ReadMaxBytes(ReadLimit):
    max_bytes: int


class SupportsTriggerAvailableNow:
    """Told before a run that ends with what is there now."""
