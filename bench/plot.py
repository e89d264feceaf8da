"""One picture: what is to be reached as a black line, every round as a dot, the median as a bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.report import Outcome
from bench.stats import OURS, Bar, Verdict, number

COLOURS = {True: "#2a9d5c", False: "#c8503c", None: "#7a869a"}


def draw(outcomes: Sequence[Outcome], to: Path) -> bool:
    """False if there is nothing to draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [(f"{o.scenario.name}\n{_label(v.bar)}", v) for o in outcomes for v in o.verdicts()]
    panels = [
        (
            "Mainstem / peer, more is better",
            [r for r in rows if r[1].bar.peer and r[1].bar.how == "at least"],
        ),
        ("Mainstem / peer, less is better", [r for r in rows if r[1].bar.peer and r[1].bar.how == "at most"]),
        (
            "Mainstem alone, as a share of what is allowed",
            [r for r in rows if not r[1].bar.peer and r[1].bar.limit],
        ),
    ]
    panels = [(title, part) for title, part in panels if part]
    if not panels:
        return False
    heights = [len(part) + 1 for _, part in panels]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(10, 0.55 * sum(heights) + 1), height_ratios=heights, squeeze=False
    )
    for axis, (title, part) in zip(axes[:, 0], panels, strict=True):
        _panel(axis, title, part)
    figure.text(
        0.99, 0.005, "black line: the bar; dots: single rounds; green reached, red missed", ha="right", size=8
    )
    figure.tight_layout()
    figure.savefig(to, dpi=110)
    pyplot.close(figure)
    return True


def _label(bar: Bar) -> str:
    of, beside = "" if bar.side == OURS else f" of {bar.side}", f" / {bar.peer}" if bar.peer else ""
    return f"{bar.metric}{of}{beside}"


def _panel(axis: object, title: str, rows: Sequence[tuple[str, Verdict]]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    for at, (_, verdict) in enumerate(rows):
        # Own values have different units: one axis fits them only relative to what each may be.
        scale = 1.0 if verdict.bar.peer or not verdict.bar.limit else verdict.bar.limit
        dots = [value / scale for value in verdict.values]
        axis.barh(at, verdict.value / scale, height=0.6, color=COLOURS[verdict.passed], alpha=0.75)
        axis.plot(dots, [at] * len(dots), "o", color="#1c2b3a", markersize=3)
        label = f"  {verdict.bar.show(verdict.value)} {'' if verdict.bar.level == 'MUST' else '(report)'}"
        axis.text(max([*dots, (verdict.bar.limit or 0) / scale]), at, label, va="center", size=8)
        if verdict.bar.limit is not None:
            axis.plot([verdict.bar.limit / scale] * 2, [at - 0.42, at + 0.42], color="black", linewidth=2)
    axis.set_yticks(range(len(rows)), [name for name, _ in rows], size=8)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: number(value))
    axis.xaxis.set_minor_formatter(lambda *_: "")
    axis.margins(x=0.15, y=0.02)
    axis.invert_yaxis()
    axis.set_title(title, size=10, loc="left")
    axis.grid(axis="x", which="both", alpha=0.2)
