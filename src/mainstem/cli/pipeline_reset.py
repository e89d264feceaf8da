"""`mainstem pipeline reset`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import close_to, connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import confirm, remark, yes_option
from mainstem.cli.pipeline_book import wall_ms
from mainstem.cli.pipeline_files import checkpoints_of, files_argument
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest

if TYPE_CHECKING:
    from mainstem.pipeline.parts import Part


@click.command(
    "reset",
    epilog=examples(
        "mainstem pipeline reset orders.sql                  # the next run begins anew",
        "mainstem pipeline reset orders.sql --part revenue   # only this query",
    ),
)
@files_argument
@click.option("--checkpoints", envvar="MAINSTEM_CHECKPOINTS", metavar="DIR", help="As given to run.")
@click.option("--part", default="", help="Only this stream, table or job.")
@yes_option
@connection_options
def command(
    files: tuple[Path, ...],
    name: str,
    checkpoints: str | None,
    part: str,
    yes: bool,
    settings: ClientSettings,
) -> None:
    """Forget how far a pipeline is: the next run computes everything again, and writes it again.

    What was written stays: delete the topics yourself where results must not be there twice, and the folders
    of tables in any case, because they belong to the old checkpoint and would take nothing from a new one.
    """
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.loading import load

    pipeline = load(list(files), name)
    names = [one.name for one in pipeline.parts]
    if part and part not in names:
        raise InvalidRequest(f"{pipeline.name} has no part {part!r}.{close_to(part, names)}")
    place = checkpoints_of(pipeline, checkpoints) + (f"/{part}" if part else "")
    if "://" in place:
        raise InvalidRequest(
            f"{place} is not a folder of this machine: delete it with the tools of its store"
        )
    with Book(settings, wall_ms) as book:
        running = book.live_run(pipeline.name, wall_ms())
    if running is not None:
        raise InvalidRequest(
            f"{pipeline.name} runs, on {running.host}: first mainstem pipeline stop {pipeline.name}"
        )
    folder = Path(place)
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {place}: nothing was noted there")
    written = [text for text in map(_place, pipeline.parts) if text]
    if written:
        remark(f"What is there stays, and will be written again: {', '.join(dict.fromkeys(written))}.")
        remark("Delete the folders before the next run; delete the topics if rows must not be there twice.")
    confirm(f"forget how far {pipeline.name}{' ' + part if part else ''} is ({place})", yes=yes)
    shutil.rmtree(folder)
    click.echo(f"{pipeline.name}: the next run begins anew.")


def _place(part: Part) -> str:
    from mainstem.pipeline.parts import Call, PerMessage, Query
    from mainstem.pipeline.settings import text

    if not isinstance(part, Query | Call | PerMessage):
        return ""
    topic, path = text(part.options, "topic"), text(part.options, "path")
    return f"topic {topic}" if topic else f"folder {path}" if path else ""
