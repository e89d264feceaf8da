"""How many rows a query has written. Spark knows that of its own sinks only, so they are counted here.

What goes to a sink as it is, is counted on its way (`counted`): Spark tells that figure with the progress of
the batch. A job that writes by itself, on the driver, says how much it was (`Tally`). What is no stream, and
written at once, is counted on its way too and asked for afterwards (`Seen`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED = "written"  # the observation of a stream that counts rows, by `rows`
UNKNOWN_ROWS = -1
MOST_BATCHES = 1_000  # whose figures wait to be asked for
PATIENCE_S = 5.0  # Spark tells what it has seen a moment after it is done
LOOK_S = 0.01


def counted(frame: DataFrame) -> DataFrame:
    """A stream whose rows are counted. Whoever gets the batches must read each of them once."""
    from pyspark.sql import functions

    return frame.observe(COUNTED, functions.count(functions.lit(1)).alias("rows"))


def added(rows: int, more: int) -> int:
    """A sum is unknown if a part of it is."""
    return UNKNOWN_ROWS if rows < 0 or more < 0 else rows + more


class Tally:
    """Rows that a job has written with each batch of its query. Told and asked by different threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, int] = {}

    def wrote(self, batch: int, rows: int) -> None:
        with self._lock:
            self._rows[batch] = rows
            while len(self._rows) > MOST_BATCHES:
                del self._rows[next(iter(self._rows))]

    def take(self, batch: int) -> int | None:
        """Once: a number may come again while there is nothing to do."""
        with self._lock:
            return self._rows.pop(batch, None)


class Seen:
    """Counts the rows of one write that is no stream."""

    def __init__(self, frame: DataFrame) -> None:
        from pyspark.sql import Observation, functions

        self._seen = Observation()
        self.frame = frame.observe(self._seen, functions.count(functions.lit(1)).alias("rows"))

    def rows(self) -> int:
        """After the write. A format of somebody else's may compute the rows where Spark does not look."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._seen._jo.future().isCompleted():  # `get` alone would wait forever
            if time.monotonic() > deadline:
                return UNKNOWN_ROWS
            time.sleep(LOOK_S)
        return int(self._seen.get["rows"])
