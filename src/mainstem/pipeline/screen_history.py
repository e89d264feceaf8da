"""What a screen remembers of queries between two looks: rates, and rows in all."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mainstem.pipeline.progress import QueryProgress

LENGTH = 24  # rates, for bars


@dataclass(slots=True)
class QueryHistory:
    rows_in: int = 0
    rows_out: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=LENGTH))
    last: tuple[int, int] = (-1, -1)  # batch and time of the newest
    total: int | None = None  # rows there were to read when it began, if its source told

    def add(self, progress: QueryProgress) -> None:
        """A batch; one that was told already is passed over."""
        told = (progress.batch, progress.at_ms)
        if told == self.last:
            return
        self.last = told
        self.rows_in += max(progress.input_rows, 0)
        self.rows_out += max(progress.output_rows, 0)
        self.rates.append(progress.input_rows_per_s)
        if self.total is None and progress.lag is not None:
            self.total = self.rows_in + progress.lag


class History(dict[str, QueryHistory]):
    """By the query's name."""

    def add(self, progress: QueryProgress) -> None:
        self.setdefault(progress.query, QueryHistory()).add(progress)

    def totals(self) -> dict[str, int]:
        return {name: one.total for name, one in self.items() if one.total is not None}
