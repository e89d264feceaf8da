"""`mainstem pipeline validate`."""

from __future__ import annotations

from pathlib import Path

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, json_option, plural
from mainstem.cli.pipeline_files import files_argument, load_checked
from mainstem.client.settings import ClientSettings


@click.command(
    "validate",
    epilog=examples(
        "mainstem pipeline validate orders.sql",
        "mainstem pipeline validate orders.sql --offline   # without a broker",
    ),
)
@files_argument
@click.option(
    "--offline", is_flag=True, help="Do not ask the broker: topics and their fields stay unchecked."
)
@json_option
@connection_options
def command(
    files: tuple[Path, ...], name: str, offline: bool, as_json: bool, settings: ClientSettings
) -> None:
    """Find what is wrong with a pipeline, without Spark.

    Checks syntax, names of streams, tables, topics, columns and functions, and options. Every mistake is told
    with its file, line and column; the exit code is then 2.
    """
    pipeline, checked = load_checked(files, name, None if offline else settings)
    if as_json:
        facts = {"pipeline": pipeline.name, "parts": len(pipeline.parts), "ok": True}
        emit_record(facts | {"warnings": [str(doubt) for doubt in checked.doubts]}, as_json=True)
    else:
        click.echo(f"{pipeline.name}: {plural(len(pipeline.parts), 'part')}, nothing wrong.")
