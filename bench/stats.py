"""From raw runs to verdicts. Pure: numbers in, numbers out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

Metrics = Mapping[str, float]
Level = Literal["MUST", "REPORT"]
OURS = "mainstem"
SINK = "sink"  # keeps nothing: what the load itself can reach


@dataclass(frozen=True)
class Bar:
    """What a scenario has to reach: a metric of ours, divided by a peer's in the same round or as it is."""

    metric: str
    how: Literal["at least", "at most"]
    limit: float | None  # None: measured and shown, nothing to reach
    level: Level
    peer: str | None = None  # None: the limit is on our own value
    unit: str = ""  # of an own value; a ratio is shown as "x"
    side: str = OURS  # which of ours: there may be several

    def describe(self) -> str:
        """What is to be reached, without the metric's name: `at least 1.5x of kafka`."""
        if self.limit is None:
            return "no bar" if self.peer is None else f"no bar, against {self.peer}"
        return f"{self.how} {self.show(self.limit)}" + (f" of {self.peer}" if self.peer else "")

    def show(self, value: float) -> str:
        if self.peer or self.unit == "x":
            return f"{number(value)}x"
        return f"{number(value)} {self.unit}".strip()


@dataclass(frozen=True)
class Run:
    """One measurement of one side. Runs of the same round are a pair."""

    round: int
    side: str
    metrics: Metrics


@dataclass(frozen=True)
class Verdict:
    bar: Bar
    values: tuple[float, ...]  # one per round: ratios, or our own values
    value: float  # their median
    passed: bool | None  # None: there was no limit


def turn_order(sides: Sequence[str], round_number: int) -> list[str]:
    """Who runs when: each round starts with another side, so that a drift of the machine favours none."""
    shift = round_number % len(sides) if sides else 0
    return [*sides[shift:], *sides[:shift]]


def values_of(runs: Sequence[Run], side: str, metric: str) -> dict[int, float]:
    """The metric by round, for the rounds in which that side delivered it."""
    return {run.round: run.metrics[metric] for run in runs if run.side == side and metric in run.metrics}


def pair_ratios(runs: Sequence[Run], metric: str, peer: str, side: str = OURS) -> tuple[float, ...]:
    """Ours divided by the peer's, round by round; rounds that lack either side do not count."""
    ours, theirs = values_of(runs, side, metric), values_of(runs, peer, metric)
    return tuple(ours[n] / theirs[n] for n in sorted(ours) if theirs.get(n))


def judge(bar: Bar, runs: Sequence[Run]) -> Verdict | None:
    """None when there is nothing to judge: not one round with every side the bar needs."""
    if bar.peer is None:
        own = values_of(runs, bar.side, bar.metric)
        values = tuple(own[n] for n in sorted(own))
    else:
        values = pair_ratios(runs, bar.metric, bar.peer, bar.side)
    if not values:
        return None
    middle = median(values)
    if bar.limit is None:
        return Verdict(bar, values, middle, None)
    return Verdict(bar, values, middle, middle >= bar.limit if bar.how == "at least" else middle <= bar.limit)


def out_of_reach(bar: Bar, runs: Sequence[Run]) -> float | None:
    """What a broker that keeps nothing gets of the peer's, if even that misses the bar."""
    if bar.peer in (None, SINK) or bar.limit is None:
        return None
    limit = judge(replace(bar, side=SINK), runs)
    return None if limit is None or limit.passed else limit.value


def summary(runs: Sequence[Run], side: str) -> dict[str, float]:
    """The median of every metric of one side."""
    names = {name for run in runs if run.side == side for name in run.metrics}
    return {name: median(values_of(runs, side, name).values()) for name in sorted(names)}


def number(value: float) -> str:
    """Three significant digits, without an exponent: 1234567 -> 1.23 M, 0.3333 -> 0.333."""
    for size, suffix in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            unit = 1e3 if suffix == " k" else size
            return f"{_digits(value / unit)}{suffix}"
    return _digits(value)


def _digits(value: float) -> str:
    if value == int(value) and abs(value) < 1e4:
        return str(int(value))
    whole = len(str(int(abs(value))))
    return f"{value:.{max(0, 3 - whole)}f}"
