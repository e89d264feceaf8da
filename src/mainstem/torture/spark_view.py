"""How a run with Spark looks: a live screen, lines without a terminal, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mainstem.torture.spark_judge import PROMISES
from mainstem.torture.spark_run import SparkProgress
from mainstem.torture.verdict import told

BAR_WIDTH = 40


def counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items())) or "none yet"


def live_view(progress: SparkProgress) -> RenderableType:
    facts = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=progress.rows, completed=progress.copied, width=BAR_WIDTH)
    shown: tuple[tuple[str, RenderableType], ...] = (
        ("seed", str(progress.seed)),
        ("now", progress.state),
        ("copied", bar),
        ("", f"{progress.copied:,} of {progress.rows:,} rows, {progress.sent:,} sent"),
        ("windows", f"{progress.windows:,} closed"),
        ("kills", f"{progress.strikes.total()} of {progress.kills}: {counts(progress.strikes)}"),
        ("drivers", f"{progress.drivers} started, {progress.ended} ended by themselves"),
        ("running for", f"{progress.elapsed_s:.0f} s"),
    )
    for name, value in shown:
        facts.add_row(Text(name, style="bold"), value)
    return Group(Text("mainstem torture spark", style="bold"), facts)


def line(progress: SparkProgress) -> str:
    where = f"{progress.elapsed_s:6.1f} s  {progress.strikes.total()} of {progress.kills} kills"
    return f"{where}  {progress.copied:,} of {progress.rows:,} rows copied  {progress.state}"


def rows(progress: SparkProgress) -> Iterator[Mapping[str, object]]:
    return told(progress.verdict.checks, PROMISES)
