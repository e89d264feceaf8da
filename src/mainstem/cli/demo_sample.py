"""The sample of the demo: a pipeline over the stream of orders, and what must come out of it.

    orders (topic) ─┐
                    ├─ revenue per minute and region ─▶ topic ─▶ Parquet
    customers (csv) ┘

Event time runs 60 times as fast as the clock, so that a minute's run closes many windows.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mainstem.cli.demo_orders import CUSTOMERS

ORDERS = "mainstem-demo-orders"  # nobody else has topics of these names
REVENUE = "mainstem-demo-revenue"
PIPELINE = "mainstem-demo"
FOLDER = "mainstem-sample"  # beside the data
LAKE = "revenue"  # in it, the Parquet files
REGIONS = ("north", "east", "south", "west")
SPEED = 60  # of event time
WINDOW_S = 60
# Five seconds of the clock: orders of one partition may be that much behind those of another.
WATERMARK_S = 300

SQL = f"""\
-- The sample of `make run`. Try it yourself: mainstem pipeline explain {FOLDER}/orders.sql

CREATE STREAM orders (id BIGINT, customer STRING, amount DECIMAL(12, 2), time TIMESTAMP)
  WITH (topic = '{ORDERS}', format = 'json', timestamp = 'time', watermark = '{WATERMARK_S} seconds');

CREATE TABLE customers WITH (format = 'csv', path = 'customers.csv', header = 'true');

CREATE STREAM revenue WITH (topic = '{REVENUE}', format = 'json', key = 'region') AS
  SELECT window.start AS minute, c.region, sum(o.amount) AS revenue, count(*) AS orders
  FROM orders o JOIN customers c ON o.customer = c.id
  GROUP BY window(o.time, '{WINDOW_S} seconds'), c.region;

CREATE TABLE lake WITH (format = 'parquet', path = '{LAKE}') AS SELECT * FROM revenue;
"""


def customer_name(number: int) -> str:
    return f"c-{number:04d}"


def region_of(customer: str) -> str:
    return REGIONS[int(customer.removeprefix("c-")) % len(REGIONS)]


def write_sample(folder: Path) -> Path:
    """Anew: old checkpoints know a stream that is over. Gives the pipeline's file."""
    # Out of the way in one step: whoever still writes there cannot keep the new one from being made.
    old = folder.with_name(f".{folder.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        folder.rename(old)
    for gone in (old, folder):
        shutil.rmtree(gone, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"{name},{region_of(name)}" for name in map(customer_name, range(CUSTOMERS))]
    (folder / "customers.csv").write_text("id,region\n" + "\n".join(rows) + "\n", encoding="utf-8")
    file = folder / "orders.sql"
    file.write_text(SQL, encoding="utf-8")
    return file


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the result."""

    minute_s: int  # since 1970
    region: str
    cents: int
    orders: int


def figure_of(value: bytes) -> Figure:
    row = json.loads(value)
    minute = datetime.fromisoformat(row["minute"])
    return Figure(int(minute.timestamp()), row["region"], round(row["revenue"] * 100), row["orders"])


class Expected:
    """What the pipeline must find in the orders that were acknowledged."""

    def __init__(self) -> None:
        self._cents: Counter[tuple[int, str]] = Counter()
        self._orders: Counter[tuple[int, str]] = Counter()
        self._latest_s = 0.0

    def add(self, value: bytes) -> None:
        order = json.loads(value)
        at_s = datetime.fromisoformat(order["time"]).timestamp()
        window = (int(at_s) // WINDOW_S * WINDOW_S, region_of(order["customer"]))
        self._cents[window] += round(order["amount"] * 100)
        self._orders[window] += 1
        self._latest_s = max(self._latest_s, at_s)

    def closed(self) -> dict[tuple[int, str], Figure]:
        """Windows that lie behind the watermark. Spark cuts it to milliseconds."""
        watermark_s = int(self._latest_s * 1000) / 1000 - WATERMARK_S
        return {
            window: Figure(*window, self._cents[window], self._orders[window])
            for window in self._cents
            if window[0] + WINDOW_S <= watermark_s
        }

    def differences(self, found: Mapping[tuple[int, str], Figure], where: str) -> Iterator[str]:
        """What is wrong with rows that came out: missing, with other figures, or too early."""
        closed = self.closed()
        for window, figure in sorted(closed.items()):
            got = found.get(window)
            if got is None:
                yield f"{where}: no row for {_name(window)}"
            elif got != figure:
                yield (
                    f"{where}: {_name(window)} has {got.cents / 100:.2f} of {got.orders} orders, "
                    f"it must be {figure.cents / 100:.2f} of {figure.orders}"
                )
        for window in sorted(set(found) - set(closed)):
            yield f"{where}: a row for {_name(window)}, which cannot be over"


def _name(window: tuple[int, str]) -> str:
    return f"{datetime.fromtimestamp(window[0], UTC):%H:%M} {window[1]}"
