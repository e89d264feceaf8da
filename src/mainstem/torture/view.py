"""How a run looks: a live screen, lines without a terminal, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mainstem.torture.cycles import Progress
from mainstem.torture.verdict import told


def counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none yet"


def live_view(progress: Progress) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    for name, value in (
        ("seed", str(progress.seed)),
        ("now", progress.state),
        ("cycles", str(progress.cycles)),
        ("strikes", counts(progress.strikes)),
        ("into", counts(progress.aims)),
        ("acknowledged", f"{progress.acked:,}"),
        ("slowest start", f"{progress.slowest_start_s:.1f} s"),
        ("running for", f"{progress.elapsed_s:.0f} s"),
    ):
        facts.add_row(Text(name, style="bold"), value)
    return Group(Text(progress.title, style="bold"), facts)


def line(progress: Progress) -> str:
    where = f"{progress.elapsed_s:6.1f} s  after {progress.cycles} cycles: {progress.state}"
    return f"{where}  ({progress.acked:,} acknowledged)"


def rows(progress: Progress) -> Iterator[Mapping[str, object]]:
    return told(progress.verdict.checks, progress.verdict.promises)
