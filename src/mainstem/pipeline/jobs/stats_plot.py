"""A picture of the recent past of topics: rates, sizes, keys, latency. One line for each topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from mainstem.pipeline.jobs.stats_rows import WindowStats, lines

TOPICS = 8  # more lines than that cannot be told apart
_INK, _GRID, _OPEN = "#333333", "#dddddd", "#f2f2f2"

Get = Callable[[WindowStats], float | None]


def draw(windows: Sequence[WindowStats], path: Path) -> None:
    """A PNG, replaced in one step, so that a viewer never finds half of one."""
    from matplotlib.figure import Figure

    by_topic = lines(windows)
    has_latency = any(one.latency_p50_ms is not None for one in windows)
    rows = [["rows", "bytes"], ["sizes", "keys"], *([["latency", "latency"]] if has_latency else [])]
    figure = Figure(figsize=(10, 2.9 * len(rows)), dpi=90, layout="constrained")
    axes: dict[str, Any] = figure.subplot_mosaic(rows)
    shown = dict(list(by_topic.items())[:TOPICS])
    for number, (topic, line) in enumerate(shown.items()):
        colour = f"C{number}"
        _line(axes["rows"], line, lambda one: one.rows_per_s, colour, label=topic, empty=0.0)
        _line(axes["bytes"], line, lambda one: one.bytes_per_s, colour, empty=0.0)
        _line(axes["sizes"], line, lambda one: one.size_p50, colour)
        _line(axes["sizes"], line, lambda one: one.size_p99, colour, style="--")
        _line(axes["keys"], line, lambda one: one.keys, colour, empty=0.0)
        if has_latency:
            _line(axes["latency"], line, lambda one: one.latency_p50_ms, colour)
            _line(axes["latency"], line, lambda one: one.latency_p99_ms, colour, style="--")
    _finish(axes, windows)
    hidden = len(by_topic) - len(shown)
    more = f"and {hidden} more, with fewer records" if hidden else None
    figure.legend(loc="outside upper right", ncols=4, fontsize=9, frameon=False, title=more, title_fontsize=8)
    width_s = (windows[0].end - windows[0].start).total_seconds() if windows else 0
    title = f"Topics in windows of {_time(width_s)}; the grey one is open"
    figure.suptitle(title, color=_INK, fontsize=12, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    figure.savefig(fresh, format="png")
    fresh.replace(path)


def _line(
    axes: Any,
    line: Sequence[WindowStats | datetime],
    get: Get,
    colour: str,
    *,
    label: str = "",
    style: str = "-",
    empty: float | None = None,
) -> None:
    """`empty` is the value of a window in which nothing came; None leaves a gap."""
    times = [one.start if isinstance(one, WindowStats) else one for one in line]
    values = [get(one) if isinstance(one, WindowStats) else empty for one in line]
    drawn = [float("nan") if value is None else value for value in values]
    marker = "o" if len(line) < 40 else ""
    axes.plot(
        times, drawn, style, color=colour, label=label or "_", marker=marker, markersize=3, linewidth=1.6
    )


def _finish(axes: dict[str, Any], windows: Sequence[WindowStats]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import EngFormatter

    titles = {
        "rows": ("Rate", "records per second", EngFormatter()),
        "bytes": ("Throughput of keys and values", "bytes per second", EngFormatter("B")),
        "sizes": ("Size of a record: median, p99 dashed", "bytes", EngFormatter("B")),
        "keys": ("Different keys in a window, about", "keys", EngFormatter()),
        "latency": ("Latency from event to record: median, p99 dashed", "seconds", EngFormatter("s")),
    }
    for name, one in axes.items():
        title, unit, formatter = titles[name]
        if name == "latency":  # told in milliseconds, shown in what suits them
            for line in one.lines:
                line.set_ydata([value / 1000 for value in line.get_ydata()])
            one.relim()
            one.autoscale_view()
        one.set_title(title, loc="left", fontsize=10, color=_INK)
        one.set_ylabel(unit, color=_INK)
        one.set_xlabel("time, UTC", color=_INK)
        one.yaxis.set_major_formatter(formatter)
        locator = AutoDateLocator(minticks=3, maxticks=6 if name != "latency" else 12)
        one.xaxis.set_major_locator(locator)
        one.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        one.set_ylim(bottom=min(0.0, one.get_ylim()[0]) if name == "latency" else 0.0)
        one.grid(color=_GRID, linewidth=0.6)
        one.set_axisbelow(True)
        for side in ("top", "right"):
            one.spines[side].set_visible(False)
        if windows:  # the newest is not over yet, as far as anyone knows
            newest = max(windows, key=lambda window: window.start)
            one.axvspan(newest.start, newest.end, color=_OPEN, zorder=0)


def _time(seconds: float) -> str:
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}{'s' * (seconds != size)}"
    return f"{seconds:g} seconds"
