"""What the demo shows: where the broker is, how to send it a first message, and how it goes."""

from __future__ import annotations

import shlex
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mainstem import __version__
from mainstem.cli.demo_sample import SPEED
from mainstem.cli.output import human_ms, printable
from mainstem.cli.serve import unheard

BARS = "▁▂▃▄▅▆▇█"
MOST_WRONG = 10  # lines about it
STAYS = "Ctrl-C stops it; the data stays, but the sample's topics begin anew at the next start."
HISTORY = 30  # as much as fits beside the numbers in 80 columns
# To be copied as it is: no line is long, none is indented, and there are no single quotes, for the shell.
FIRST_MESSAGE = """
from confluent_kafka import Producer
p = Producer({"bootstrap.servers": "KAFKA"})
p.produce("hello", "hello from Python")
p.flush()"""


def welcome(listening: Mapping[str, str], data: Path, *, synced: bool) -> str:
    """Printed once, before anything moves: lines that can be copied."""
    kafka = listening.get("kafka", "")
    lines = [f"Mainstem {__version__} is running.", ""]
    width = max(map(len, listening.values()), default=0)
    for name, where in listening.items():
        lines.append(f"  {name.ljust(10)}{where.ljust(width)}   {_about(name)}".rstrip())
    lines += [f"  {line}" for line in unheard(listening)]
    lines += [f"  {'data'.ljust(10)}{data}", ""]
    if not synced:
        lines += ["WARNING: topics.durability = os. A power cut may take acknowledged messages.", ""]
    if kafka:
        lines += [
            "A first message with kcat:",
            "",
            f"  echo 'hello from kcat' | kcat -b {kafka} -t hello -P",
            f"  kcat -b {kafka} -t hello -C -e",
            "",
            "and with Python:",
            "",
            f"{shlex.quote(sys.executable)} -c '{FIRST_MESSAGE.replace('KAFKA', kafka)}'",
            "",
        ]
    return "\n".join(lines)


def _about(name: str) -> str:
    about = {"http": "/readyz, /metrics", "amqp": "RabbitMQ's clients, guest/guest"}
    return about.get(name.partition("+")[0], "")


class Rates:
    """Numbers that only grow, and how fast each of them did lately."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}
        self.per_second: dict[str, float] = {}
        self.history: dict[str, deque[float]] = {}

    def update(self, name: str, value: float, now_s: float) -> None:
        before = self._last.get(name)
        self._last[name] = (value, now_s)
        if before is None or now_s <= before[1]:
            return
        rate = (value - before[0]) / (now_s - before[1])
        self.per_second[name] = rate
        self.history.setdefault(name, deque(maxlen=HISTORY)).append(rate)

    def text(self, name: str) -> str:
        return f"{self.per_second.get(name, 0):,.0f}/s"

    def bars(self, name: str) -> str:
        history = self.history.get(name, ())
        top = max(history, default=0)
        return "".join(
            BARS[min(int(rate / top * len(BARS)), len(BARS) - 1)] if top else " " for rate in history
        )


def broker_view(counts: Mapping[str, float], rates: Rates) -> RenderableType:
    """A row per count of the broker: what it is now, how fast it grows."""
    table = Table.grid(padding=(0, 3))
    table.add_column(min_width=14)
    table.add_column(justify="right", min_width=12)
    table.add_column(justify="right", min_width=12)
    table.add_column(style="cyan")
    for name, value in counts.items():
        grows = name in rates.per_second
        speed = rates.text(name) if grows else ""
        table.add_row(name, f"{value:,.0f}", speed, rates.bars(name) if grows else "")
    return Group(table, Text("Ctrl-C stops it; the data stays.", style="dim"))


def stream_view(report: Mapping[str, object], rates: Rates, seconds: float) -> RenderableType:
    """The stream of orders: sent, read, latency, the last one."""
    table = Table.grid(padding=(0, 3))
    table.add_column(min_width=14)
    table.add_column(justify="right", min_width=12)
    table.add_column(justify="right", min_width=12)
    table.add_column(style="cyan")
    for name in ("sent", "read"):
        table.add_row(f"orders {name}", f"{report[name]:,}", rates.text(name), rates.bars(name))
    latency = (
        f"p50 {human_ms(_number(report, 'p50_ms'))}, p99 {human_ms(_number(report, 'p99_ms'))}, "
        f"slowest {human_ms(_number(report, 'max_ms'))}"
    )
    past = min(_number(report, "seconds"), seconds)
    ends = f"{past:.0f} of {seconds:.0f} s; Ctrl-C ends it now, with a verdict"
    if report.get("waiting"):
        ends = "All is sent and read. Waiting for the last minutes of the pipeline ..."
    return Group(
        table,
        *pipeline_view(report),
        Text(f"{'latency now':<17}{latency}"),
        Text(f"{'last order':<17}{printable(str(report['last']))}", overflow="ellipsis", no_wrap=True),
        Text(ends if seconds < float("inf") else STAYS, style="dim"),
    )


def pipeline_view(report: Mapping[str, object]) -> list[RenderableType]:
    """What Spark makes of the orders, where it does."""
    found = report.get("pipeline")
    if not isinstance(found, Mapping):
        return []
    if not found["windows"]:
        return [
            Text(f"{'pipeline':<17}Spark is starting; the first minutes come out in a moment", style="dim")
        ]
    revenue = "  ".join(f"{region} {amount:,.2f}" for region, amount in found["revenue"].items())
    rows = f"{found['topic_rows']:,} rows in the topic, {found['lake_rows']:,} in Parquet"
    return [
        Text(f"{'pipeline':<17}{found['windows']:,} minutes closed: {rows}"),
        Text(f"{'revenue ' + str(found['minute']):<17}{revenue}"),
    ]


def stream_line(report: Mapping[str, object], rates: Rates) -> str:
    """The same in one line, for where there is no terminal."""
    if report.get("waiting"):
        return "All is sent and read. Waiting for the last minutes of the pipeline ..."
    return (
        f"{_number(report, 'seconds'):6.1f} s   sent {report['sent']:,} ({rates.text('sent')})   "
        f"read {report['read']:,} ({rates.text('read')})   p99 {human_ms(_number(report, 'p99_ms'))}"
        f"{_pipeline_words(report)}"
    )


def _pipeline_words(report: Mapping[str, object]) -> str:
    found = report.get("pipeline")
    if not isinstance(found, Mapping):
        return ""
    return f"   pipeline {found['windows']:,} minutes closed" if found["windows"] else "   pipeline starting"


def verdict_text(verdict: Mapping[str, object], *, synced: bool) -> str:
    wrong = verdict["wrong"]
    assert isinstance(wrong, list)
    seconds = _number(verdict, "seconds")
    rate = _number(verdict, "sent") / seconds if seconds else 0.0
    lines = [
        "",
        f"{seconds:.1f} s: {verdict['sent']:,} orders sent and acknowledged, {verdict['read']:,} read, "
        f"{rate:,.0f} a second.",
        f"From sending to reading: p50 {human_ms(_number(verdict, 'p50_ms'))}, "
        f"p99 {human_ms(_number(verdict, 'p99_ms'))}, slowest {human_ms(_number(verdict, 'max_ms'))}.",
    ]
    if verdict.get("over_amqp"):
        lines.append(f"{verdict['over_amqp']:,} of them came from a RabbitMQ client, to the same topic.")
    if synced:
        lines.append("Every order was on disk before it was acknowledged.")
    if wrong:
        lines += ["WRONG: what came out is not what went in:", *(f"  {one}" for one in wrong)]
    else:
        partitions = verdict["partitions"]
        lines.append(
            f"Right: what came out is what went in, byte for byte, in order, {partitions} partitions."
        )
    return "\n".join([*lines, *_pipeline_verdict(verdict)])


def _pipeline_verdict(verdict: Mapping[str, object]) -> list[str]:
    found = verdict.get("pipeline")
    if not isinstance(found, Mapping):
        return []
    what = (
        f"{found['windows']:,} minutes of revenue by region, {found['topic_rows']:,} rows in the topic and "
        f"{found['lake_rows']:,} in Parquet (event time runs {SPEED} times as fast as the clock)"
    )
    if not found["wrong"]:
        return [f"Right: the pipeline's figures are those of the orders: {what}."]
    some = found["wrong"][:MOST_WRONG]
    more = [f"  and {len(found['wrong']) - MOST_WRONG} more"] if len(found["wrong"]) > MOST_WRONG else []
    return [f"WRONG: the pipeline's figures ({what}):", *(f"  {one}" for one in some), *more]


def _number(facts: Mapping[str, object], name: str) -> float:
    value = facts.get(name, 0)
    assert isinstance(value, int | float)
    return float(value)
