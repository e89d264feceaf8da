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
from typing import TYPE_CHECKING

import click

from mainstem.cli.groups import examples
from mainstem.cli.output import Column, emit_record, emit_rows, json_option, remark
from mainstem.config.kinds import duration_ms

if TYPE_CHECKING:
    from mainstem.torture.run import Progress

DEFAULT_CYCLES = 20
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
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    "torture",
    epilog=examples(
        "mainstem torture                                  # 20 times kill -9, in a temporary folder",
        "mainstem torture --for 10m --data /mnt/disk/try   # on the disk that you want to trust",
        "sudo mainstem torture --fault both --cycles 100   # and power cuts, on a loop-mounted ext4",
    ),
)
@click.option("--cycles", type=click.IntRange(min=1), help=f"How many strikes. [default: {DEFAULT_CYCLES}]")
@click.option("--for", "seconds", callback=_seconds, metavar="DURATION", help="How long, such as 10m.")
@click.option(
    "--fault",
    type=click.Choice(list(FAULTS)),
    default="kill",
    show_default=True,
    help="kill -9, which sees what the process loses; a power cut, which sees what the disk never got "
    "(needs root: it mounts a small ext4 and shuts it down).",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="A new or empty folder on the disk to try; deleted if all is well. [default: a temporary one]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Choices of an earlier run. [default: a new one]")
@json_option
def command(
    cycles: int | None, seconds: float | None, fault: str, data: Path | None, seed: int | None, as_json: bool
) -> None:
    """Crash a broker under load, start it again, and compare what it said with what is there.

    Plain, idempotent and transactional producers, a consumer group and a consume-transform-produce pipeline
    run against it all the time. Exit code 1 if anything was lost, repeated, torn or went back.
    """
    if importlib.util.find_spec("confluent_kafka") is None:
        raise click.ClickException(
            "the load is made by confluent-kafka, which is not installed here: pip install confluent-kafka"
        )
    from mainstem.torture.run import Plan, torture

    if cycles is None and seconds is None:
        cycles = DEFAULT_CYCLES
    seed = random.randrange(1_000_000) if seed is None else seed
    folder = data or Path(tempfile.mkdtemp(prefix="mainstem-torture-"))
    remark(f"Seed {seed}, data in {folder.resolve()}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what is mounted is unmounted
    with _screen() as show:
        progress = torture(Plan(folder, seed, FAULTS[fault], cycles, seconds), show)
    _tell(progress, folder, as_json)
    if not progress.is_good:
        raise click.exceptions.Exit(1)


def _tell(progress: Progress, folder: Path, as_json: bool) -> None:
    from mainstem.torture.view import counts, rows

    emit_rows(rows(progress), COLUMNS, as_json=as_json)
    strikes = sum(progress.strikes.values())
    emit_record(
        {
            "verdict": "nothing was lost" if progress.is_good else "NOT GOOD",
            "seed": progress.seed,
            "strikes": counts(progress.strikes),
            "struck into": counts(progress.aims),
            "acknowledged records": progress.acked,
            "slowest start": f"{progress.slowest_start_s:.2f} s",
            # No failure in n tries bounds its chance at 3/n, with 95 % confidence.
            "chance of a loss per strike": f"below {min(3 / strikes, 1):.1%}" if strikes else "unknown",
        },
        as_json=as_json,
    )
    if progress.is_good:
        return
    findings = ([progress.crash] if progress.crash else []) + progress.verdict.findings()
    for finding in findings[:SHOWN_FINDINGS]:
        remark(f"  {finding}")
    if len(findings) > SHOWN_FINDINGS:
        remark(f"  and {len(findings) - SHOWN_FINDINGS} more")
    remark(f"The data and the broker's log stay in {folder.resolve()}")


@contextlib.contextmanager
def _screen() -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.live import Live

    from mainstem.torture.view import line, live_view

    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda progress: remark(line(progress))
        return
    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield lambda progress: live.update(live_view(progress))
