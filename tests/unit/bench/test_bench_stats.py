"""The numbers that people will quote: how raw runs become ratios and verdicts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from bench.report import Outcome, as_json, markdown, table
from bench.scenarios import SCENARIOS
from bench.stats import (
    OURS,
    SINK,
    Bar,
    Level,
    Run,
    judge,
    number,
    out_of_reach,
    pair_ratios,
    summary,
    turn_order,
)

KAFKA = "kafka"


def runs(ours: list[float], theirs: list[float], metric: str = "rate") -> list[Run]:
    made = [Run(i, OURS, {metric: value}) for i, value in enumerate(ours)]
    return made + [Run(i, KAFKA, {metric: value}) for i, value in enumerate(theirs)]


def test_ratio_is_taken_within_a_round_and_not_between_medians():
    # Medians alone would say 300 / 200 = 1.5; round by round it is 3, 1 and 1.
    measured = runs([300, 200, 400], [100, 200, 400])
    assert pair_ratios(measured, "rate", KAFKA) == (3.0, 1.0, 1.0)
    verdict = judge(Bar("rate", "at least", 1.5, "MUST", KAFKA), measured)
    assert verdict is not None
    assert verdict.value == 1.0
    assert verdict.passed is False


def test_round_without_its_partner_does_not_count():
    measured = [*runs([300, 200], [100]), Run(5, KAFKA, {"rate": 7})]
    assert pair_ratios(measured, "rate", KAFKA) == (3.0,)


def test_peer_that_reached_nothing_does_not_make_an_infinite_ratio():
    assert pair_ratios(runs([300], [0]), "rate", KAFKA) == ()


@pytest.mark.parametrize(("value", "passed"), [(0.3, True), (1 / 3, True), (0.34, False)])
def test_at_most_bar_is_reached_at_its_limit_and_below(value: float, passed: bool):
    verdict = judge(Bar("cpu", "at most", 1 / 3, "MUST", KAFKA), runs([value], [1.0], "cpu"))
    assert verdict is not None
    assert verdict.passed is passed


def test_bar_without_peer_judges_our_own_median():
    verdict = judge(Bar("mb", "at most", 200, "MUST", unit="MB"), runs([150, 190, 900], [1000] * 3, "mb"))
    assert verdict is not None
    assert (verdict.value, verdict.passed) == (190, True)


def test_bar_without_limit_reports_and_passes_no_judgement():
    verdict = judge(Bar("rate", "at least", None, "REPORT", KAFKA), runs([2], [1]))
    assert verdict is not None
    assert (verdict.value, verdict.passed) == (2.0, None)


def test_nothing_measured_gives_no_verdict():
    assert judge(Bar("rate", "at least", 1.0, "MUST", KAFKA), []) is None
    assert judge(Bar("rate", "at least", 1.0, "MUST", KAFKA), runs([1], [], "rate")) is None


def test_every_side_begins_equally_often():
    sides = ["a", "b", "c"]
    orders = [turn_order(sides, i) for i in range(6)]
    assert [order[0] for order in orders] == ["a", "b", "c", "a", "b", "c"]
    assert all(sorted(order) == sides for order in orders)


def test_summary_is_the_median_of_each_metric_of_one_side():
    measured = [Run(0, OURS, {"a": 1.0}), Run(1, OURS, {"a": 3.0, "b": 5.0}), Run(0, KAFKA, {"a": 100.0})]
    assert summary(measured, OURS) == {"a": 2.0, "b": 5.0}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1_234_567, "1.23 M"),
        (57_300, "57.3 k"),
        (3400, "3400"),
        (0.33333, "0.33"),
        (200, "200"),
        (2.4e9, "2.40 G"),
    ],
)
def test_numbers_are_short_enough_for_a_table(value: float, shown: str):
    assert number(value) == shown


def test_results_name_what_was_missed_and_what_could_not_run():
    first, second = SCENARIOS[0], SCENARIOS[1]
    outcome = Outcome(first, runs([100], [100], "records_per_s"))
    broken = Outcome(second, error="RuntimeError: no broker\nmore")
    text = table([outcome, broken])
    assert "| missed |" in text
    assert "not complete: RuntimeError: no broker |" in text
    facts = {"date": "2030-01-01T00:00:00", "commit": "abc", "dirty": True, "machine": {"cores": 2}}
    page = markdown({**facts, "versions": {}, "conditions": {}}, [outcome], None)
    assert "with local changes" in page
    assert "**cores**: 2" in page
    parsed = json.loads(json.dumps(as_json(facts, [outcome, broken])))
    assert parsed["scenarios"][0]["verdicts"][0]["verdict"] == "missed"
    assert parsed["scenarios"][0]["runs"][0]["metrics"] == {"records_per_s": 100}


def test_result_says_how_many_of_its_runs_were_not_alone_on_the_machine():
    metrics = {"records_per_s": 1.0, "disturbed": 0.0, "unsettled": 0.0}
    marked = [Run(0, OURS, metrics), Run(0, KAFKA, {**metrics, "disturbed": 1.0})]
    assert "runs disturbed" not in table(
        [Outcome(SCENARIOS[0], [Run(0, OURS, metrics), Run(0, KAFKA, metrics)])]
    )
    assert "; 1 of 2 runs disturbed |" in table([Outcome(SCENARIOS[0], marked)])


def test_scenarios_have_unique_names_and_their_bars_name_a_side_they_run():
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    for scenario in SCENARIOS:
        assert scenario.sides[0] == OURS
        assert all(bar.peer is None or bar.peer in scenario.sides for bar in scenario.bars), scenario.name
        assert all(bar.side in scenario.sides for bar in scenario.bars), scenario.name


def test_bar_can_be_about_another_side_of_ours_and_says_so():
    measured = [*runs([300], [100]), Run(0, "mainstem-older", {"rate": 150})]
    bar = Bar("rate", "at least", None, "REPORT", KAFKA, side="mainstem-older")
    verdict = judge(bar, measured)
    assert verdict is not None
    assert verdict.values == (1.5,)
    own = judge(Bar("rate", "at least", 100, "MUST", side="mainstem-older"), measured)
    assert own is not None
    assert own.value == 150
    text = table([Outcome(replace(SCENARIOS[0], bars=(bar,)), measured)])
    assert "| rate of mainstem-older | 150 | 100 |" in text


def test_a_bar_that_not_even_the_load_reaches_is_told_from_one_that_was_missed():
    bar = Bar("rate", "at least", 1.5, "MUST", "kafka")
    rates = {"mainstem": 9.0, "kafka": 8.0, SINK: 10.0}
    runs = [Run(n, side, {"rate": rate}) for n in range(3) for side, rate in rates.items()]
    assert out_of_reach(bar, runs) == 1.25
    assert out_of_reach(Bar("rate", "at least", 1.2, "MUST", "kafka"), runs) is None
    assert out_of_reach(Bar("rate", "at most", 1.0, "MUST", "kafka"), runs) == 1.25
    assert out_of_reach(Bar("rate", "at most", 1.3, "MUST", "kafka"), runs) is None
    assert out_of_reach(bar, [run for run in runs if run.side != SINK]) is None


@pytest.mark.parametrize(
    ("sink_rate", "level", "missed"), [(13, "MUST", 1), (11, "MUST", 0), (13, "REPORT", 0)]
)
def test_what_has_to_be_reached_counts_as_missed_if_a_broker_that_keeps_nothing_reaches_it(
    sink_rate: float, level: Level, missed: int
):
    rates = {"mainstem": 9.0, "kafka": 8.0, SINK: sink_rate}
    measured = [Run(0, side, {"rate": rate}) for side, rate in rates.items()]
    bar = Bar("rate", "at least", 1.5, level, "kafka")
    assert len(Outcome(replace(SCENARIOS[0], bars=(bar,)), measured).missed()) == missed
