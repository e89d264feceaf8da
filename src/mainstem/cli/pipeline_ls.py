"""`mainstem pipeline ls`."""

from __future__ import annotations

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import Column, emit_rows, json_option
from mainstem.cli.pipeline_book import local_time, status_for_machines, wall_ms
from mainstem.client.settings import ClientSettings


@click.command(
    "ls",
    epilog=examples(
        "mainstem pipeline ls",
        "mainstem pipeline ls --json | jq -r 'select(.state == \"failed\") | .pipeline'",
    ),
)
@json_option
@connection_options
def command(as_json: bool, settings: ClientSettings) -> None:
    """List the pipelines that ran with this broker, and how their newest run is.

    A run that was not heard of for 15 seconds is shown as lost.
    """
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.screen_text import number

    with Book(settings, wall_ms) as book:
        known = book.statuses()
    rows = [status_for_machines(status, wall_ms()) for status in known.values()]
    columns = [
        Column("pipeline", "pipeline"),
        Column("state", "state"),
        Column("mode", "mode"),
        Column("started_ms", "since", show=local_time),
        Column("rows_in", "rows in", "right", number),
        Column("rows_out", "rows out", "right", number),
        Column("lag", "lag", "right", number),
        Column("host", "host"),
    ]
    emit_rows(rows, columns, as_json=as_json, empty="No pipelines.")
