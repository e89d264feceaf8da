"""A picture of a result: which columns are what, chosen by their types, and how it is drawn.

    time or ordered number, then numbers      lines, one per number column
    category, then numbers                    bars, one group per category
    two of these, then a number               several series: the second one names them
    numbers only                              lines over the first, or bars of one row

The choice (`chart_of`) is pure; `draw` writes a PNG, `text_chart` makes bars for a terminal.
"""

from __future__ import annotations

import io
import itertools
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mainstem.model.errors import InvalidRequest, NotSupported
from mainstem.pipeline.result import Result, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_SERIES = 12  # more cannot be told apart
MAX_BARS = 60
_BLOCKS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class Chart:
    """`series` are values by name, one per place on the x axis; None where there is none."""

    kind: Literal["line", "bar"]
    title: str
    x_label: str
    y_label: str
    x: Sequence[Any]
    series: dict[str, list[float | None]]
    left_out: str = ""  # what there was no room for, as a remark


def title_of(query: str) -> str:
    """On one line, without the lines that are comments."""
    return " ".join(re.sub(r"(?m)^\s*--.*$", "", query).split()).rstrip("; ")


def chart_of(result: Result, title: str) -> Chart:
    numbers = [i for i, column in enumerate(result.columns) if column.kind == "number"]
    if not numbers:
        names = ", ".join(f"{column.name} ({column.kind})" for column in result.columns)
        raise InvalidRequest(f"a plot needs a column of numbers; there are {names or 'no columns'}")
    if not result.rows:
        raise InvalidRequest("a plot needs rows; there are none")
    others = [i for i in range(len(result.columns)) if i not in numbers]
    if not others and len(numbers) == 1:
        return _row_numbers(result, numbers[0], title)
    if not others:
        return (
            _bars_of_one_row(result, title)
            if len(result.rows) == 1
            else _plain(result, 0, numbers[1:], title)
        )
    x = _x_column(result, others)
    rest = [i for i in others if i != x]
    if x not in others:
        numbers = [i for i in numbers if i != x]
    if rest and len(set(map(shown, result.values(x)))) < len(result.rows):
        return _pivoted(result, x, rest[0], numbers[0], title)
    return _plain(result, x, numbers, title)


def _x_column(result: Result, others: Sequence[int]) -> int:
    """A time if there is one, else a number that stands first beside others, else the first category."""
    times = [i for i in others if result.columns[i].kind == "time"]
    if times:
        return times[0]
    several = sum(column.kind == "number" for column in result.columns) > 1
    if result.columns[0].kind == "number" and several and _is_ordered(result.values(0)):
        return 0
    return others[0]


def _is_ordered(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None]
    return len(there) > 1 and (
        all(a <= b for a, b in itertools.pairwise(there)) or all(a >= b for a, b in itertools.pairwise(there))
    )


def _plain(result: Result, x: int, numbers: Sequence[int], title: str) -> Chart:
    """Each number column is a series; rows without a place on the axis are left out."""
    kind: Literal["line", "bar"] = "line" if result.columns[x].kind in ("time", "number") else "bar"
    rows = [row for row in result.rows if row[x] is not None or kind == "bar"]
    if kind == "line":
        rows = sorted(rows, key=lambda row: row[x])
    left_out = "" if kind == "line" or len(rows) <= MAX_BARS else f"the first {MAX_BARS} of {len(rows)} bars"
    rows = rows if kind == "line" else rows[:MAX_BARS]
    series = {result.columns[i].name: [_number(row[i]) for row in rows] for i in numbers[:MAX_SERIES]}
    places = [row[x] if kind == "line" else shown(row[x]) or "null" for row in rows]
    label = result.columns[numbers[0]].name if len(numbers) == 1 else ""
    return Chart(kind, title, result.columns[x].name, label, places, series, left_out)


def _pivoted(result: Result, x: int, by: int, y: int, title: str) -> Chart:
    """One series per value of the second category, the largest ones if there are many."""
    is_line = result.columns[x].kind in ("time", "number")
    places = list(dict.fromkeys(row[x] for row in result.rows if row[x] is not None or not is_line))
    places = sorted(places) if is_line else places[:MAX_BARS]
    cells: dict[str, dict[Any, float | None]] = {}
    for row in result.rows:
        cells.setdefault(shown(row[by]) or "null", {})[row[x]] = _number(row[y])
    by_size = sorted(cells, key=lambda name: -sum(value or 0 for value in cells[name].values()))
    kept = set(by_size[:MAX_SERIES])
    series = {name: [found.get(at) for at in places] for name, found in cells.items() if name in kept}
    left_out = f"the {MAX_SERIES} largest of {len(cells)} series" if len(cells) > MAX_SERIES else ""
    x_values = places if is_line else [shown(at) or "null" for at in places]
    names = (result.columns[x].name, result.columns[y].name)
    return Chart("line" if is_line else "bar", title, *names, x_values, series, left_out)


def _row_numbers(result: Result, y: int, title: str) -> Chart:
    name = result.columns[y].name
    values = [_number(value) for value in result.values(y)]
    kind: Literal["line", "bar"] = "bar" if len(values) == 1 else "line"
    places = [name] if kind == "bar" else list(range(1, len(values) + 1))
    return Chart(kind, title, "" if kind == "bar" else "row", name, places, {name: values})


def _bars_of_one_row(result: Result, title: str) -> Chart:
    names = [column.name for column in result.columns]
    return Chart("bar", title, "", "", names, {"value": [_number(value) for value in result.rows[0]]})


def _number(value: Any) -> float | None:
    """None also for what no axis has: infinite, or not a number."""
    return float(value) if value is not None and math.isfinite(value) else None


# --- as a picture ----------------------------------------------------------------------------------


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise NotSupported("plots need matplotlib: pip install 'mainstem[spark]'") from None


def draw(chart: Chart, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5), dpi=100)
    try:
        (_draw_lines if chart.kind == "line" else _draw_bars)(axes, chart)
        axes.set_title(textwrap.fill(chart.title, 115), fontsize=9, loc="left")
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if len(chart.series) > 1:
            axes.legend(fontsize=8, frameon=False, ncols=1 + len(chart.series) // 7)
        figure.tight_layout()
        _save(figure, path)
    finally:
        pyplot.close(figure)


def _save(figure: Figure, path: Path) -> None:
    """With a palette, which makes the file a third as large: pictures are sent and kept."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    with Image.open(drawn) as picture:
        picture.convert("RGB").quantize(256).save(path, format="PNG", optimize=True)


def _draw_lines(axes: Axes, chart: Chart) -> None:
    marker = "o" if len(chart.x) <= 40 else ""
    for name, values in chart.series.items():
        there = [(at, value) for at, value in zip(chart.x, values, strict=True) if value is not None]
        axes.plot(
            [at for at, _ in there], [value for _, value in there], marker=marker, ms=3, lw=1.5, label=name
        )
    if chart.x and hasattr(chart.x[0], "year"):
        from matplotlib import dates

        places = dates.AutoDateLocator()
        axes.xaxis.set_major_locator(places)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(places))


def _draw_bars(axes: Axes, chart: Chart) -> None:
    width = 0.8 / len(chart.series)
    for index, (name, values) in enumerate(chart.series.items()):
        shift = (index - (len(chart.series) - 1) / 2) * width
        axes.bar([at + shift for at in range(len(chart.x))], [v or 0 for v in values], width, label=name)
    labels = [textwrap.shorten(str(at), 24, placeholder="…") for at in chart.x]
    crowded = sum(map(len, labels)) > 80
    axes.set_xticks(
        range(len(labels)), labels, rotation=45 if crowded else 0, ha="right" if crowded else "center"
    )


# --- as text ---------------------------------------------------------------------------------------


def text_chart(chart: Chart, width: int) -> str:
    """A bar per value; of several series, one block per place on the x axis."""
    several = len(chart.series) > 1
    rows = [
        (shown(at), name if several else "", values[index])
        for index, at in enumerate(chart.x)
        for name, values in chart.series.items()
    ]
    figures = ["" if value is None else f"{value:,.6g}" for _, _, value in rows]
    label = min(max((len(at) for at, _, _ in rows), default=0), 30)
    second = min(max((len(name) for _, name, _ in rows), default=0), 20)
    figure = max(map(len, figures), default=0)
    room = max(10, width - label - second - figure - (6 if several else 4))
    largest = max((abs(value) for _, _, value in rows if value is not None), default=0.0) or 1.0
    lines, before = [], ""
    for (at, name, value), said in zip(rows, figures, strict=True):
        shown_at = (
            "" if several and at == before else textwrap.shorten(at, label, placeholder="…") if at else ""
        )
        parts = [
            shown_at.ljust(label),
            *([name[:second].ljust(second)] if several else []),
            said.rjust(figure),
        ]
        lines.append("  ".join([*parts, _bar(abs(value or 0) / largest, room)]).rstrip())
        before = at
    return "\n".join(lines)


def _bar(part: float, room: int) -> str:
    eighths = round(part * room * 8)
    return "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
