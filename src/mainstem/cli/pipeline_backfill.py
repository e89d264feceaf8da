"""`mainstem pipeline backfill`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import confirm, console_on, plural, remark, yes_option
from mainstem.cli.pipeline_book import wall_ms
from mainstem.cli.pipeline_files import files_argument, load_checked
from mainstem.cli.pipeline_run import failure, first_status
from mainstem.cli.when import parse_time_ms
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import MainstemError

if TYPE_CHECKING:
    from rich.progress import Progress

    from mainstem.pipeline.backfill import Filled
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.progress import QueryProgress, RunStatus, State

SUFFIX = "-backfill"


@click.command(
    "backfill",
    epilog=examples(
        "mainstem pipeline backfill orders.sql --from '7d ago'",
        "mainstem pipeline backfill orders.sql --from 2031-05-01 --to 2031-05-08 --suffix -may",
        "mainstem pipeline backfill orders.sql --to '1h ago' --in-place",
    ),
)
@files_argument
@click.option("--from", "begin", metavar="WHEN", help="Records from this time on. [the first]")
@click.option("--to", "end", metavar="WHEN", help="Records before this time. [now]")
@click.option("--suffix", default=SUFFIX, help=f"After the names of topics and folders. [{SUFFIX}]")
@click.option("--in-place", "suffix", flag_value="", help="Write to the pipeline's own topics and folders.")
@click.option("--master", default="local[*]", help="Spark's master. [local[*]: this machine]")
@yes_option
@connection_options
def command(
    files: tuple[Path, ...],
    name: str,
    begin: str | None,
    end: str | None,
    suffix: str,
    master: str,
    yes: bool,
    settings: ClientSettings,
) -> None:
    """Compute over a stretch of history, as one batch, beside what runs.

    Results go to topics and folders of their own, whose names end in the suffix, unless --in-place; records
    that cannot be read go to orders-backfill.dead. Times are those of the records. Windows that the stretch
    cuts are computed of what lies in it.
    """
    pipeline, checked = load_checked(files, name, settings)
    from mainstem.pipeline import backfill
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.driving import beating
    from mainstem.pipeline.frames import Span
    from mainstem.pipeline.session import require_spark, spark_session

    require_spark()
    now_ms = wall_ms()
    # "Now" is one moment, for all outputs.
    span = Span(parse_time_ms(begin, now_ms) if begin else None, parse_time_ms(end or "0s ago", now_ms))
    fill = backfill.Fill(settings, span, suffix)
    backfill.refuse(pipeline, fill)
    rows = backfill.rows_between(pipeline, fill)
    remark(f"{pipeline.name}: {plural(rows, 'record')} to read.")
    if not suffix:
        confirm("write results that may be there already", yes=yes)
    with Book(settings, wall_ms) as book, _bars() as bars:
        teller = _Teller(book, first_status(pipeline, master, "", "backfill"))
        tasks = {"": bars.add_task("starting Spark", total=None)}

        def report(output: str, done: int, known: int) -> None:
            if output not in tasks:
                tasks[output] = bars.add_task(output, total=None)
            bars.update(tasks[output], completed=done, total=known or None)

        try:
            with beating(teller.beat):
                spark = spark_session(pipeline.name, master)
                bars.update(tasks[""], completed=1, total=1)
                for one in backfill.run(spark, pipeline, checked, fill, report):
                    teller.wrote(one)
        except BaseException as error:
            wrong = error if isinstance(error, MainstemError | KeyboardInterrupt) else failure(error)
            teller.say("stopped" if isinstance(error, KeyboardInterrupt) else "failed", error=str(wrong))
            raise wrong from error
        teller.say("done", rows_in=rows)
    _tell(teller.status)


def _bars() -> AbstractContextManager[Progress]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console_on(sys.stderr),
        disable=not sys.stderr.isatty(),
    )


class _Teller:
    """Says in the book how it goes, under a name of its own: the pipeline itself may run meanwhile."""

    def __init__(self, book: Book, status: RunStatus) -> None:
        import msgspec

        self._book = book
        self._replace = msgspec.structs.replace
        name = f"{status.pipeline}.backfill"
        self.status = self._replace(status, pipeline=name, rows_in=-1, rows_out=-1)

    def beat(self) -> None:
        """From a thread of its own, which must not keep what it says."""
        self._book.say(self._replace(self.status, state="running", at_ms=wall_ms()))

    def say(self, state: State, **changes: object) -> None:
        self.status = self._replace(self.status, state=state, at_ms=wall_ms(), **changes)
        self._book.say(self.status)

    def wrote(self, one: Filled) -> None:
        from mainstem.pipeline.counting import added

        progress = _progress(one)
        queries = (*self.status.queries, progress)
        rows = reduce(added, (query.output_rows for query in queries), 0)
        self.status = self._replace(self.status, queries=queries, rows_out=rows, dead=one.dead)
        self._book.progressed(self.status.pipeline, self.status.run, progress)


def _progress(one: Filled) -> QueryProgress:
    """An output as one batch. What it has read is not counted: others may have read the same."""
    from mainstem.pipeline.progress import QueryProgress

    rate = one.rows * 1000 / one.took_ms if one.rows >= 0 and one.took_ms else 0.0
    return QueryProgress(
        query=one.name,
        batch=0,
        at_ms=wall_ms(),
        input_rows=-1,
        input_rows_per_s=0.0,
        output_rows=one.rows,
        output_rows_per_s=round(rate, 1),
        batch_ms=one.took_ms,
        dead=one.dead,
    )


def _tell(status: RunStatus) -> None:
    from mainstem.pipeline.screen_text import dead_letters, number

    for one in status.queries:
        click.echo(one.query)
        remark(f"{one.query}: {number(one.output_rows)} rows out.")
    if status.dead:
        remark(f"Dead letters: {dead_letters(status.dead)}.")
