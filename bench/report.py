"""What is left of a bench: a JSON file with every raw run, and a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.lab import Scenario
from bench.stats import OURS, Bar, Run, Verdict, judge, number, out_of_reach, summary


@dataclass
class Outcome:
    """One scenario as it went."""

    scenario: Scenario
    runs: list[Run] = field(default_factory=list)
    error: str = ""  # why runs are missing
    versions: Mapping[str, str] = field(default_factory=dict)  # of the peers, by side

    def verdicts(self) -> list[Verdict]:
        return [verdict for bar in self.scenario.bars if (verdict := judge(bar, self.runs))]

    def missed(self) -> list[Verdict]:
        """What had to be reached and was not, but for what not even a broker that keeps nothing reaches."""
        return [
            verdict
            for verdict in self.verdicts()
            if verdict.passed is False
            and verdict.bar.level == "MUST"
            and out_of_reach(verdict.bar, self.runs) is None
        ]


def word(verdict: Verdict) -> str:
    return {None: "reported", True: "reached", False: "missed"}[verdict.passed]


def as_json(facts: Mapping[str, object], outcomes: Sequence[Outcome]) -> dict[str, object]:
    return {**facts, "scenarios": [_scenario_json(outcome) for outcome in outcomes]}


def _scenario_json(outcome: Outcome) -> dict[str, object]:
    scenario = outcome.scenario
    verdicts = [
        {
            "metric": verdict.bar.metric,
            "bar": verdict.bar.describe(),
            "limit": verdict.bar.limit,
            "level": verdict.bar.level,
            "side": verdict.bar.side,
            "peer": verdict.bar.peer,
            "values": list(verdict.values),
            "median": verdict.value,
            "verdict": word(verdict),
            "limit_of_the_load": out_of_reach(verdict.bar, outcome.runs),
        }
        for verdict in outcome.verdicts()
    ]
    return {
        "name": scenario.name,
        "title": scenario.title,
        "conditions": scenario.conditions,
        "error": outcome.error,
        "versions": dict(outcome.versions),
        "verdicts": verdicts,
        "medians": {side: summary(outcome.runs, side) for side in scenario.sides},
        "runs": [
            {"round": run.round, "side": run.side, "metrics": dict(run.metrics)} for run in outcome.runs
        ],
    }


def table(outcomes: Sequence[Outcome]) -> str:
    """One row a bar, as Markdown."""
    lines = [
        "| scenario | measured | Mainstem | peer | result (range) | bar | |",
        "|---|---|---:|---:|---:|---|---|",
    ]
    for outcome in outcomes:
        for verdict in outcome.verdicts():
            lines.append(_row(outcome, verdict))
        if outcome.error:
            lines.append(f"| {outcome.scenario.title} | | | | | | not complete: {_one_line(outcome.error)} |")
    return "\n".join(lines) + "\n"


def _row(outcome: Outcome, verdict: Verdict) -> str:
    bar, low, high = verdict.bar, min(verdict.values), max(verdict.values)
    ours = summary(outcome.runs, bar.side).get(bar.metric)
    theirs = summary(outcome.runs, bar.peer).get(bar.metric) if bar.peer else None
    spread = "" if low == high else f" ({number(low)} to {number(high)})"
    cells = [
        outcome.scenario.title,
        bar.metric if bar.side == OURS else f"{bar.metric} of {bar.side}",
        "" if ours is None else number(ours),
        "" if theirs is None else number(theirs) + _version(outcome, bar),
        f"**{bar.show(verdict.value)}**{spread}",
        f"{bar.level}: {bar.describe()}",
        word(verdict) + _limit(outcome, bar) + _marked(outcome, bar),
    ]
    return "| " + " | ".join(cells) + " |"


def _version(outcome: Outcome, bar: Bar) -> str:
    version = outcome.versions.get(bar.peer or "")
    return f" ({version})" if version else ""


def _limit(outcome: Outcome, bar: Bar) -> str:
    """A bar that the load program cannot reach with any broker is said to be one."""
    limit = out_of_reach(bar, outcome.runs)
    return "" if limit is None else f"; a broker that keeps nothing gets {bar.show(limit)}"


def _marked(outcome: Outcome, bar: Bar) -> str:
    """How many runs behind a result were not alone on the machine, in spite of waiting and repeating."""
    runs = [run.metrics for run in outcome.runs if run.side in (bar.side, bar.peer)]
    marked = sum(1 for metrics in runs if metrics.get("disturbed") or metrics.get("unsettled"))
    return f"; {marked} of {len(runs)} runs disturbed" if marked else ""


def _one_line(text: str) -> str:
    return text.strip().splitlines()[0][:160] if text.strip() else ""


def markdown(facts: Mapping[str, object], outcomes: Sequence[Outcome], plot_name: str | None) -> str:
    """The whole page: conditions first, so that nobody reads a number without them."""
    changed = " (with local changes)" if facts["dirty"] else ""
    lines = [f"# Bench, {facts['date']}, commit {facts['commit']}{changed}", ""]
    for title in ("machine", "versions", "conditions"):
        section = facts[title]
        if isinstance(section, Mapping):
            lines += [f"- **{key}**: {value}" for key, value in section.items()]
    lines += ["", table(outcomes)]
    if plot_name:
        lines += [f"![ratios and bars]({plot_name})", ""]
    return "\n".join(lines)
