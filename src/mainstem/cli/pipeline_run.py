"""`mainstem pipeline run`."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import connection_options, pairs
from mainstem.cli.groups import examples
from mainstem.cli.output import console_on, json_option, plural, remark
from mainstem.cli.pipeline_book import wall_ms
from mainstem.cli.pipeline_files import checkpoints_of, files_argument, load_checked
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest, MainstemError

if TYPE_CHECKING:
    from mainstem.pipeline.parts import Pipeline
    from mainstem.pipeline.progress import RunStatus


class PipelineFailed(MainstemError):
    """Spark gave up; the text says why."""


@click.command(
    "run",
    epilog=examples(
        "mainstem pipeline run orders.sql                 # until Ctrl-C",
        "mainstem pipeline run orders.sql --once          # all that is there now, then exit",
        "mainstem pipeline run orders.sql udfs.py --name shop",
        "mainstem pipeline run orders.sql --master spark://host:7077 --checkpoints /shared/checkpoints",
    ),
)
@files_argument
@click.option("--once", is_flag=True, help="Compute all that is there now, then exit with 0.")
@click.option("--master", default="local[*]", help="Spark's master. [local[*]: this machine]")
@click.option(
    "--checkpoints",
    envvar="MAINSTEM_CHECKPOINTS",
    metavar="DIR",
    help="Where it notes how far it is. [$MAINSTEM_CHECKPOINTS; mainstem-checkpoints beside the file]",
)
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark's; as often as needed.")
@json_option
@connection_options
def command(
    files: tuple[Path, ...],
    name: str,
    once: bool,
    master: str,
    checkpoints: str | None,
    conf: tuple[str, ...],
    as_json: bool,
    settings: ClientSettings,
) -> None:
    """Run a pipeline, and show how it goes.

    It goes on where it ended: each query notes in its checkpoint how far it is. Ctrl-C, or
    `mainstem pipeline stop`, ends it in order.
    """
    spark = pairs(conf, "--conf")
    pipeline, checked = load_checked(files, name, settings, spark)
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.driving import Driver
    from mainstem.pipeline.running import Plan, Run
    from mainstem.pipeline.screen import Screen
    from mainstem.pipeline.session import require_spark, spark_session

    require_spark()
    place = checkpoints_of(pipeline, checkpoints)
    status = first_status(pipeline, master, place, "once" if once else "live")
    with Book(settings, wall_ms) as book, Screen(console_on(sys.stderr), wall_ms) as screen:
        driver = Driver(book, status, screen, wall_ms)
        driver.claim()
        run = Run(pipeline, checked, Plan(settings, place, once))
        try:
            driver.drive(run, lambda: spark_session(pipeline.name, master, spark, log_file=log_file(place)))
        except MainstemError:
            raise
        except Exception as error:
            raise failure(error) from error
    tell(driver.status, as_json)


def first_status(pipeline: Pipeline, master: str, place: str, mode: str) -> RunStatus:
    from mainstem.pipeline.driving import here
    from mainstem.pipeline.progress import RunStatus

    host, pid = here()
    now_ms = wall_ms()
    return RunStatus(
        pipeline=pipeline.name,
        run=uuid.uuid4().hex[:12],
        state="starting",
        started_ms=now_ms,
        at_ms=now_ms,
        host=host,
        pid=pid,
        master=master,
        files=pipeline.files,
        checkpoints=place,
        mode=mode,  # type: ignore[arg-type]
    )


def failure(error: BaseException) -> MainstemError:
    """What Spark refuses before it computes is a mistake in the files; the rest is a failure."""
    from pyspark.errors import AnalysisException, ParseException

    from mainstem.pipeline.failures import reason, where

    text = f"{where(error)}{reason(error)}"
    if isinstance(error, AnalysisException | ParseException | TypeError | ValueError) and where(error):
        return InvalidRequest(text)
    return PipelineFailed(text)


def log_file(place: str) -> Path | None:
    """What Spark's Java says, beside the checkpoints of a folder on this machine."""
    if "://" in place:
        return None
    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "spark.log"


def tell(status: RunStatus, as_json: bool) -> None:
    import msgspec

    if as_json:
        click.echo(msgspec.json.encode(status).decode())
        return
    from mainstem.pipeline.screen_text import dead_letters

    out = "rows out unknown" if status.rows_out < 0 else f"{plural(status.rows_out, 'row')} out"
    remark(f"{status.pipeline}: {status.state}, {plural(status.rows_in, 'row')} in, {out}.")
    if status.dead:
        remark(f"Dead letters: {dead_letters(status.dead)}.")
