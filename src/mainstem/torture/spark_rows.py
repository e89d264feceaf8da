"""The rows that are sent, and what must come of them. Pure: every row follows from its number and the seed.

Numbers are 1 to `count`. Event time goes forward with them and is shuffled a little; the last row lies so far
behind the others that it closes every window but its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

KEYS = 20
T0_MS = 1_767_225_600_000  # 2026-01-01; a multiple of the window
SPAN_MS = 10_000_000  # of event time, however many rows there are
WINDOW_MS = 60_000
DELAY_MS = 600_000  # of the watermark: far more than rows are ever out of order, so that none is late
JITTER_MS = 4_000
_MIX = 2_654_435_761
_MASK = (1 << 40) - 1


class Row(NamedTuple):
    id: int
    key: str
    amount: int
    at_ms: int


class Sum(NamedTuple):
    rows: int
    amount: int


Windows = dict[tuple[str, int], Sum]  # by key and beginning


@dataclass(frozen=True, slots=True)
class Rows:
    count: int
    seed: int

    def row(self, number: int) -> Row:
        mixed = (number * _MIX + self.seed * 7_919) & _MASK
        at_ms = T0_MS + number * SPAN_MS // self.count + (mixed >> 20) % JITTER_MS
        if number == self.count:
            at_ms = T0_MS + SPAN_MS + DELAY_MS + 10 * WINDOW_MS
        return Row(number, f"k{(mixed >> 8) % KEYS:02}", (mixed >> 12) % 1000, at_ms)

    def __iter__(self) -> Iterator[Row]:
        return map(self.row, range(1, self.count + 1))

    def windows(self) -> Windows:
        counts: Counter[tuple[str, int]] = Counter()
        amounts: Counter[tuple[str, int]] = Counter()
        for row in self:
            window = (row.key, row.at_ms - row.at_ms % WINDOW_MS)
            counts[window] += 1
            amounts[window] += row.amount
        return {window: Sum(count, amounts[window]) for window, count in counts.items()}

    def is_closed(self, start_ms: int) -> bool:
        """Whether the watermark has passed a window in the end."""
        return start_ms + WINDOW_MS <= self.row(self.count).at_ms - DELAY_MS


def to_json(row: Row) -> bytes:
    at = datetime.fromtimestamp(row.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    text = f'{{"id":{row.id},"key":"{row.key}","amount":{row.amount},"at":"{at[:-6]}Z"}}'
    return text.encode()
