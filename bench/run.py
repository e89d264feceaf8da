"""`python -m bench`: runs scenarios, alternating Mainstem and its peers, and writes what it found."""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from bench import machine, plot, programs
from bench.lab import CannotRun, Lab, Scenario, say
from bench.peers.kafka import JVM, VERSION
from bench.programs import LoadFailed
from bench.report import Outcome, as_json, markdown, table, word
from bench.scenarios import SCENARIOS, queue_load
from bench.scenarios.warm import WARM_QUICK_S, WARM_S
from bench.stats import OURS, Run, number, turn_order
from bench.wire import Refused

RESULTS = Path(__file__).parent / "results"
EXAMPLES = """examples:
  python -m bench                              everything, 5 pairs each (under three hours)
  python -m bench --quick                      everything, one short pair each (about 40 minutes)
  python -m bench --only produce --pairs 7     scenarios whose name contains "produce"
  python -m bench --only ready --only end-to-end
  python -m bench --only produce --skip raw
  python -m bench --only amqp                  beside RabbitMQ
  python -m bench --only small --side kafka    only the peer, to see what it reaches here
  make bench ARGS="--only small-requests"
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Mainstem beside Apache Kafka, RabbitMQ and Spark's Kafka connector. Needs gcc, "
        "librdkafka-dev, librabbitmq-dev, libtcmalloc-minimal4, Java 17 and Maven; for RabbitMQ debootstrap "
        "and root.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="show the scenarios with their bars, run nothing")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="scenarios whose name contains NAME"
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="NAME", help="not those whose name contains NAME"
    )
    parser.add_argument(
        "--pairs", type=int, default=None, metavar="N", help="rounds of each scenario (default 5)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round each: does it work, roughly how fast"
    )
    parser.add_argument(
        "--side",
        action="append",
        default=[],
        metavar="SIDE",
        help="only mainstem, kafka, kafka-flush, sink, rabbitmq, rabbitmq-quorum, connector, connector-tuned",
    )
    parser.add_argument(
        "--data", type=Path, default=programs.BUILD / "data", metavar="DIR", help="where data folders go"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help="where results go")
    return parser.parse_args(arguments)


def chosen(names: Sequence[str]) -> list[Scenario]:
    unknown = [name for name in names if not any(name in scenario.name for scenario in SCENARIOS)]
    if unknown:
        known = ", ".join(scenario.name for scenario in SCENARIOS)
        raise SystemExit(f"no scenario has {' or '.join(unknown)} in its name; there are: {known}")
    return [s for s in SCENARIOS if not names or any(name in s.name for name in names)]


def show_list(scenarios: Sequence[Scenario]) -> None:
    for scenario in scenarios:
        print(f"{scenario.name:24} {scenario.title}")
        for bar in scenario.bars:
            of = "" if bar.side == OURS else f" of {bar.side}"
            print(f"{'':24}   {bar.level:6} {bar.metric}{of} {bar.describe()}")


def run_scenario(scenario: Scenario, lab: Lab, rounds: int, sides: Sequence[str]) -> Outcome:
    outcome = Outcome(scenario)
    try:
        if scenario.prepare:
            for side in sides:
                say(f"  {side}: start and warm up")
                lab.server(side)
        for number_ in range(rounds):
            for side in turn_order(sides, number_):
                metrics = scenario.measure(lab, side, number_)
                outcome.runs.append(Run(number_, side, metrics))
                say(f"  {number_ + 1}/{rounds} {side:12} {_headline(scenario, metrics)}")
    except CannotRun as e:
        outcome.error = str(e)
    except Exception as e:  # one scenario that fails must not cost the results of the others
        outcome.error = f"{type(e).__name__}: {e}"
        if not isinstance(e, OSError | RuntimeError | LoadFailed | Refused):
            traceback.print_exc()
        say(lab.log_tails())  # before the folders go
    finally:
        outcome.versions = lab.versions()
        lab.close()
    for verdict in outcome.verdicts():
        bar = verdict.bar
        say(f"  => {bar.metric} {bar.show(verdict.value)}, {bar.level} {bar.describe()}: {word(verdict)}")
    if outcome.error:
        say(f"  => not complete: {outcome.error.splitlines()[0]}")
    return outcome


def _headline(scenario: Scenario, metrics: object) -> str:
    assert isinstance(metrics, dict)
    names = dict.fromkeys(bar.metric for bar in scenario.bars)
    return ", ".join(f"{name} {number(metrics[name])}" for name in names if name in metrics)


def conditions(options: argparse.Namespace, rounds: int) -> dict[str, object]:
    warm_s = WARM_QUICK_S if options.quick else WARM_S
    warm_queues_s = queue_load.WARM_QUICK_S if options.quick else queue_load.WARM_S
    return {
        "pairs": rounds,
        "quick": options.quick,
        "order": "sides alternate, another begins each round; a result is the median of the rounds' ratios",
        "durability": "mainstem: fdatasync before each answer; kafka: none (default); kafka-flush: a batch",
        "warm-up": f"the scenario's own load on each side for {warm_s:.0f} s; of queues, for all alike, "
        f"raw publishing and consuming at once for {warm_queues_s:.0f} s",
        "between runs": "what a produce scenario wrote is deleted (DeleteRecords), queues are purged, sync, "
        "wait until every broker with its children was idle for 3 s; all stay up, on one disk; "
        "nothing is pinned; done again if other brokers took over 0.3 CPU s",
        "kafka": f"{VERSION}, one KRaft node, default settings, {' '.join(JVM)}",
        "rabbitmq": "one node, default settings, version in the table; durable queues, persistent messages",
        "payload": "hex digits by a seeded generator",
    }


def free_stem(out: Path, stem: str) -> str:
    """Another run of the same commit on the same day keeps what the one before it found."""
    number, free = 1, stem
    while (out / f"{free}.json").exists():
        number += 1
        free = f"{stem}-{number}"
    return free


def write_results(facts: dict[str, object], outcomes: Sequence[Outcome], out: Path) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    stem = free_stem(out, f"{str(facts['date'])[:10]}-{facts['commit']}{'-quick' if facts['quick'] else ''}")
    picture = out / f"{stem}.png"
    try:
        drawn = plot.draw(outcomes, picture)
    except ImportError:
        say("no plot: matplotlib is not installed (it is in the `bench` extra)")
        drawn = False
    (out / f"{stem}.json").write_text(json.dumps(as_json(facts, outcomes), indent=1) + "\n")
    page = out / f"{stem}.md"
    page.write_text(markdown(facts, outcomes, picture.name if drawn else None))
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    scenarios = [s for s in chosen(options.only) if not any(name in s.name for name in options.skip)]
    if options.list:
        show_list(scenarios)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that brokers are stopped on the way out
    rounds = options.pairs or (1 if options.quick else 5)
    options.data.mkdir(parents=True, exist_ok=True)
    facts: dict[str, object] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": machine.commit(),
        "dirty": machine.is_dirty(),
        "quick": options.quick,
        "machine": machine.describe(options.data),
        "versions": {"kafka": VERSION, **machine.versions()},
        "conditions": conditions(options, rounds),
    }
    outcomes: list[Outcome] = []
    started = time.monotonic()
    try:
        for i, scenario in enumerate(scenarios):
            minutes = (time.monotonic() - started) / 60
            say(f"[{i + 1}/{len(scenarios)}, {minutes:.1f} min] {scenario.name}: {scenario.title}")
            sides = [side for side in scenario.sides if not options.side or side in options.side]
            lab = Lab(
                options.data / scenario.name,
                options.quick,
                scenario.tls,
                scenario.ours_extra,
                scenario.prepare,
                scenario.queues,
            )
            shutil.rmtree(lab.root, ignore_errors=True)
            outcomes.append(run_scenario(scenario, lab, min(rounds, scenario.max_rounds or rounds), sides))
    except KeyboardInterrupt:
        say("stopped; what was measured so far is written")
    page = write_results(facts, outcomes, options.out)
    print(table(outcomes))
    say(f"results: {page}, with every run beside it as JSON")
    return 1 if any(outcome.missed() for outcome in outcomes) else 0
