"""`mainstem torture`: crash a broker over and over, on this disk, and check that nothing is lost."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import Column, emit_record, emit_rows, json_option, remark
from mainstem.config.kinds import duration_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mainstem.torture.cycles import Plan, Progress, Report
    from mainstem.torture.spark_run import SparkProgress

P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., object])

DEFAULT_CYCLES = 20
DEFAULT_ROWS = 1_000_000
DEFAULT_KILLS = 20
FAULTS = {"kill": ("kill",), "power": ("power",), "both": ("kill", "power")}
SHOWN_FINDINGS = 20
COLUMNS = (
    Column("promise", "promise"),
    Column("checked", "checked", "right", lambda count: f"{count:,}"),
    Column("broken", "broken", "right", lambda count: f"{count:,}"),
)


def _seconds(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """A number is seconds, as for `mainstem demo`; otherwise a time with its unit."""
    if text is None:
        return None
    try:
        return duration_ms(1).parse(f"{text}s" if text.isdigit() else text) / 1000
    except ValueError:
        raise click.BadParameter('must be seconds above 0, or a time like "10m" or "2h"') from None


def _crash_options(command: F) -> F:
    """What to do to a broker, how often and where."""
    for option in reversed(
        (
            click.option(
                "--cycles", type=click.IntRange(min=1), help=f"How many strikes. [default: {DEFAULT_CYCLES}]"
            ),
            click.option(
                "--for", "seconds", callback=_seconds, metavar="DURATION", help="How long, such as 10m."
            ),
            click.option(
                "--fault",
                type=click.Choice(list(FAULTS)),
                default="kill",
                show_default=True,
                help="kill -9, which sees what the process loses; a power cut, which sees what the disk "
                "never got (needs root: it mounts a small ext4 and shuts it down).",
            ),
            click.option(
                "--data",
                type=click.Path(path_type=Path, file_okay=False),
                help="A new or empty folder on the disk to try; deleted if all is well. "
                "[default: a temporary one]",
            ),
            click.option(
                "--seed", type=click.IntRange(min=0), help="Choices of an earlier run. [default: a new one]"
            ),
        )
    ):
        command = option(command)
    return command


@click.group(
    "torture",
    cls=Commands,
    invoke_without_command=True,
    epilog=examples(
        "mainstem torture                                  # 20 times kill -9, in a temporary folder",
        "mainstem torture --for 10m --data /mnt/disk/try   # on the disk that you want to trust",
        "sudo mainstem torture --fault both --cycles 100   # and power cuts, on a loop-mounted ext4",
        "mainstem torture queues                           # queues, acks, delays and dead letters, by pika",
        "mainstem torture spark                            # driver, executors and broker of a pipeline",
    ),
)
@_crash_options
@json_option
@click.pass_context
def command(
    context: click.Context,
    cycles: int | None,
    seconds: float | None,
    fault: str,
    data: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Crash a broker under load, start it again, and compare what it said with what is there.

    Plain, idempotent and transactional producers, a consumer group and a consume-transform-produce pipeline
    run against it all the time. Exit code 1 if anything was lost, repeated, torn or went back.
    """
    if context.invoked_subcommand is not None:
        _refuse_own_options(context)
        return
    if importlib.util.find_spec("confluent_kafka") is None:
        raise click.ClickException(
            "the load is made by confluent-kafka, which is not installed here: pip install confluent-kafka"
        )
    from mainstem.torture.run import torture

    _crash(torture, Asked(cycles, seconds, fault, data, seed), as_json)


class Asked(NamedTuple):
    """The options of a run; None: not given."""

    cycles: int | None
    seconds: float | None
    fault: str
    data: Path | None
    seed: int | None


def _crash(torture: Callable[[Plan, Report], Progress], asked: Asked, as_json: bool) -> None:
    """Ends with exit code 1 if it was not good."""
    from mainstem.torture.cycles import Plan
    from mainstem.torture.view import line, live_view

    cycles = DEFAULT_CYCLES if asked.cycles is None and asked.seconds is None else asked.cycles
    seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    folder = asked.data or Path(tempfile.mkdtemp(prefix="mainstem-torture-"))
    remark(f"Seed {seed}, data in {folder.resolve()}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is mounted is unmounted
    with _screen(line, live_view) as show:
        progress = torture(Plan(folder, seed, FAULTS[asked.fault], cycles, asked.seconds), show)
    _tell(progress, folder, as_json)
    if not progress.is_good:
        raise click.exceptions.Exit(1)


@command.command(
    "queues",
    epilog=examples(
        "mainstem torture queues                                 # 20 times kill -9, in a temporary folder",
        "sudo mainstem torture queues --fault both --cycles 100  # and power cuts, on a loop-mounted ext4",
    ),
)
@_crash_options
@json_option
def queues_command(
    cycles: int | None, seconds: float | None, fault: str, data: Path | None, seed: int | None, as_json: bool
) -> None:
    """Crash a broker under a load on its queues, and compare what it said with what is delivered.

    Publishers with confirms and in transactions, consumers that acknowledge, reject and give back, fan-out,
    priorities, dead letters and delays. Exit code 1 if anything confirmed was lost, or came twice without
    saying so.
    """
    if importlib.util.find_spec("pika") is None:
        raise click.ClickException("the load is made by pika, which is not installed here: pip install pika")
    from mainstem.torture.queue_run import torture_queues

    _crash(torture_queues, Asked(cycles, seconds, fault, data, seed), as_json)


def _tell(progress: Progress, folder: Path, as_json: bool) -> None:
    from mainstem.torture.view import counts, rows

    emit_rows(rows(progress), COLUMNS, as_json=as_json)
    strikes = sum(progress.strikes.values())
    facts: dict[str, object] = {
        "verdict": "nothing was lost" if progress.is_good else "NOT GOOD",
        "seed": progress.seed,
        "strikes": counts(progress.strikes),
        "struck into": counts(progress.aims),
        "acknowledged": progress.acked,
        "slowest start": f"{progress.slowest_start_s:.2f} s",
    }
    if progress.is_good and strikes > 3:
        # No failure in n tries bounds its chance at 3/n, with 95 % confidence.
        facts["chance of a loss per strike"] = f"below {3 / strikes:.1%}"
    emit_record(facts, as_json=as_json)
    if progress.is_good:
        return
    _tell_findings(progress.crash, progress.verdict.findings(), folder)


def _tell_findings(crash: str, found: list[str], folder: Path) -> None:
    findings = ([crash] if crash else []) + found
    for finding in findings[:SHOWN_FINDINGS]:
        remark(f"  {finding}")
    if len(findings) > SHOWN_FINDINGS:
        remark(f"  and {len(findings) - SHOWN_FINDINGS} more")
    remark(f"The data and the logs stay in {folder.resolve()}")


def _refuse_own_options(context: click.Context) -> None:
    """They would do nothing for a sub-command, and be thought to."""
    for option in context.command.params:
        name = option.name or ""
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            after = f"mainstem torture {context.invoked_subcommand}"
            raise click.UsageError(
                f"{option.opts[0]} stands before {context.invoked_subcommand}; see {after} --help"
            )


@command.command(
    "spark",
    epilog=examples(
        "mainstem torture spark                          # a million rows, 20 kills; takes some minutes",
        "mainstem torture spark --rows 100000 --kills 8  # a shorter one",
        "mainstem torture spark --local --seed 7         # without a cluster; the choices of run 7",
    ),
)
@click.option(
    "--rows",
    type=click.IntRange(min=1000),
    default=DEFAULT_ROWS,
    show_default=True,
    help="How many rows go through source, aggregation and sink.",
)
@click.option(
    "--kills",
    type=click.IntRange(min=0),
    default=DEFAULT_KILLS,
    show_default=True,
    help="How many times something is killed; kinds take turns in random order.",
)
@click.option(
    "--local", is_flag=True, help="Spark in one process, instead of a cluster of a master and a worker."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new or empty folder; deleted if all is well. [default: a temporary one]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Choices of an earlier run. [default: a new one]")
@json_option
def spark_command(
    rows: int, kills: int, local: bool, data: Path | None, seed: int | None, as_json: bool
) -> None:
    """Kill the driver, the executors and the broker of a Spark pipeline, and count every row.

    A topic is copied, aggregated in windows and deduplicated by three streaming queries while kill -9 strikes
    at random. Exit code 1 if a row was lost or counted twice, or a reader was shown part of a batch.
    """
    from mainstem.pipeline.session import require_spark

    require_spark()
    from mainstem.torture.spark_run import SparkPlan, torture_spark
    from mainstem.torture.spark_view import line, live_view

    seed = random.randrange(1_000_000) if seed is None else seed
    folder = data or Path(tempfile.mkdtemp(prefix="mainstem-torture-"))
    remark(f"Seed {seed}, data in {folder.resolve()}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process stays behind
    with _screen(line, live_view) as show:
        progress = torture_spark(SparkPlan(folder, seed, rows, kills, cluster=not local), show)
    _tell_of_spark(progress, folder, as_json)
    if not progress.is_good:
        raise click.exceptions.Exit(1)


def _tell_of_spark(progress: SparkProgress, folder: Path, as_json: bool) -> None:
    from mainstem.torture.spark_view import counts, rows

    emit_rows(rows(progress), COLUMNS, as_json=as_json)
    emit_record(
        {
            "verdict": "every row was counted exactly once" if progress.is_good else "NOT GOOD",
            "seed": progress.seed,
            "rows": progress.rows,
            "kills": f"{progress.strikes.total()}: {counts(progress.strikes)}",
            "drivers": f"{progress.drivers} started, {progress.ended} ended by themselves",
            "took": f"{progress.elapsed_s:.0f} s",
        },
        as_json=as_json,
    )
    if not progress.is_good:
        _tell_findings(progress.crash, progress.verdict.findings(), folder)


@contextlib.contextmanager
def _screen(
    line: Callable[[P], str], live_view: Callable[[P], RenderableType]
) -> Iterator[Callable[[P], None]]:
    from rich.console import Console
    from rich.live import Live

    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda progress: remark(line(progress))
        return
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield lambda progress: live.update(live_view(progress))
