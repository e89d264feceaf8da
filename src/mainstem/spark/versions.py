"""What differs between the versions of PySpark that the source runs on, 4.0 to 4.3, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from pyspark.sql import Row, datasource

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    from mainstem.spark.older import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

__all__ = [
    "HAS_FILTERS",
    "HAS_LIMITS",
    "ROWS_TO_STREAMS",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "StreamArrowWriter",
    "SupportsTriggerAvailableNow",
    "batches_of",
]

HAS_LIMITS = hasattr(datasource.DataSourceStreamReader, "getDefaultReadLimit")
HAS_FILTERS = hasattr(datasource, "EqualTo")
# Where streams cannot be written as Arrow batches their writer gets rows.
ROWS_TO_STREAMS = not hasattr(datasource, "DataSourceStreamArrowWriter")
StreamArrowWriter = (
    datasource.DataSourceStreamWriter if ROWS_TO_STREAMS else datasource.DataSourceStreamArrowWriter
)
_ROWS = 10_000


def batches_of(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as the batches that newer versions give."""
    while some := [row.asDict(recursive=True) for row in islice(rows, _ROWS)]:
        yield pa.RecordBatch.from_pylist(some)
