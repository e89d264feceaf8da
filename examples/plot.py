"""A picture of what an example's pipeline has put into its topics.

python examples/plot.py behaviour --out behaviour.png
"""

import argparse
import io
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
from generate import values

matplotlib.use("Agg")
from matplotlib import dates
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from PIL import Image

Row = dict[str, Any]
Series = dict[str, list[tuple[datetime, float]]]


def rows(bootstrap: str, topic: str) -> list[Row]:
    return [json.loads(value) for value in values(bootstrap, topic)]


def series(found: Iterable[Row], time: str, value: str, name: Callable[[Row], str]) -> Series:
    """Points in the order of time, by the name of their line."""
    lines: Series = defaultdict(list)
    for row in sorted(found, key=lambda row: str(row[time])):
        lines[name(row)].append((datetime.fromisoformat(row[time]), float(row[value])))
    return dict(sorted(lines.items()))


def draw(axes: Axes, lines: Series, title: str, label: str) -> None:
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), label=name, linewidth=1.2)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_ylabel(label, fontsize=8)
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M", tz=UTC))
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    axes.set_ylim(bottom=0)
    if len(lines) > 1:
        axes.legend(fontsize=7, ncols=2)


def behaviour(bootstrap: str, left: Axes, right: Axes) -> None:
    about = series(rows(bootstrap, "visitors"), "minute", "visitors", lambda row: "estimated")
    exact = series(rows(bootstrap, "visitors-exact"), "minute", "visitors", lambda row: "exact")
    draw(left, about | exact, "Visitors per minute", "visitors")
    visits = rows(bootstrap, "visits")
    for bought, name in ((False, "left"), (True, "bought")):
        lengths = [row["clicks"] for row in visits if row["bought"] is bought]
        right.hist(lengths, bins=range(1, 31), histtype="step", label=f"{name}: {len(lengths):,} visits")
    right.set_title("Clicks of a visit", fontsize=10, loc="left")
    right.set_ylabel("visits", fontsize=8)
    right.tick_params(labelsize=8)
    right.legend(fontsize=7)


def logs(bootstrap: str, left: Axes, right: Axes) -> None:
    by_severity: dict[tuple[str, str], Row] = {}
    for row in rows(bootstrap, "log-counts"):
        one = by_severity.setdefault((row["minute"], row["severity"]), row | {"lines": 0})
        one["lines"] += row["lines"]
    draw(
        left,
        series(by_severity.values(), "minute", "lines", lambda row: row["severity"]),
        "Lines",
        "per minute",
    )
    rates = [row | {"error_rate": 100 * row["error_rate"]} for row in rows(bootstrap, "log-rates")]
    draw(right, series(rates, "minute", "error_rate", lambda row: row["program"]), "Error rate, alerts", "%")
    alerts = rows(bootstrap, "log-alerts")
    times = [datetime.fromisoformat(row["minute"]) for row in alerts]
    right.plot(times, [100 * row["error_rate"] for row in alerts], "rv", markersize=5)


def metrics(bootstrap: str, left: Axes, right: Axes) -> None:
    latency = [row for row in rows(bootstrap, "percentiles") if row["metric"] == "latency_ms"]
    draw(left, series(latency, "minute", "p99", lambda row: row["host"]), "Latency, 99th percentile", "ms")
    slow = [row for row in latency if row["host"] == "web-2"]
    lines = [series(slow, "minute", name, lambda row, name=name: name) for name in ("p50", "p90", "p99")]
    draw(right, {name: points for line in lines for name, points in line.items()}, "Latency of web-2", "ms")


def orders(bootstrap: str, left: Axes, right: Axes) -> None:
    revenue = rows(bootstrap, "revenue")
    draw(left, series(revenue, "minute", "revenue", lambda row: row["region"]), "Revenue per minute", "EUR")
    draw(right, series(revenue, "minute", "orders", lambda row: row["region"]), "Orders per minute", "orders")


PICTURES = {"behaviour": behaviour, "logs": logs, "metrics": metrics, "orders": orders}


def plot(name: str, bootstrap: str, out: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.2), dpi=80, layout="constrained")
    PICTURES[name](bootstrap, left, right)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    plt.close(figure)
    with Image.open(drawn) as picture:  # with a palette the file is a third as large
        picture.convert("RGB").quantize(64).save(out, format="PNG", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw what an example has computed.")
    parser.add_argument("name", choices=PICTURES)
    parser.add_argument("--out", type=Path, help="a PNG file [example-NAME.png]")
    parser.add_argument("--bootstrap", default=os.environ.get("MAINSTEM_BOOTSTRAP", "127.0.0.1:9092"))
    given = parser.parse_args()
    out = given.out or Path(f"example-{given.name}.png")
    plot(given.name, given.bootstrap, out)
    print(out)


if __name__ == "__main__":
    main()
