"""`mainstem pipeline stop`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import console_on, emit_record, json_option
from mainstem.cli.pipeline_book import status_for_machines, wall_ms
from mainstem.client.settings import ClientSettings

if TYPE_CHECKING:
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.progress import RunStatus

LOOK_EVERY_S = 0.3


@click.command(
    "stop",
    epilog=examples(
        "mainstem pipeline stop orders                    # returns when it has stopped",
        "mainstem pipeline stop orders --wait 300",
        "mainstem pipeline stop orders --wait 0           # only ask",
    ),
)
@click.argument("name")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=120.0,
    metavar="SECONDS",
    help="How long to wait until it has stopped. [120]",
)
@json_option
@connection_options
def command(name: str, wait_s: float, as_json: bool, settings: ClientSettings) -> None:
    """Ask the pipeline NAME to stop, wherever it runs, and wait until it has.

    Started again, it goes on from its checkpoint: nothing is lost, and a topic gets nothing twice.
    """
    from mainstem.pipeline.book import Book

    with Book(settings, wall_ms) as book:
        asked = book.ask_to_stop(name)
        if not wait_s:
            _tell(f"{name}: asked to stop", asked, as_json)
            return
        with _spinner(f"Waiting for {name} on {asked.host} to stop ..."):
            status = _wait(book, asked, wait_s)
    if status.run == asked.run and status.state == "failed":
        raise click.ClickException(
            f"{name} failed while it was to stop: {status.error or 'it gave no reason'}"
        )
    _tell(
        f"{name}: {status.state if status.run == asked.run else 'stopped, and started again'}",
        status,
        as_json,
    )


def _wait(book: Book, asked: RunStatus, wait_s: float) -> RunStatus:
    """What it says in the end."""
    from mainstem.pipeline.book_records import is_lost, is_over

    deadline_s = time.monotonic() + wait_s
    while True:
        status = book.status(asked.pipeline)
        if is_over(status) or status.run != asked.run:
            return status
        if is_lost(status, wall_ms()):
            raise click.ClickException(
                f"{asked.pipeline} was asked to stop and fell silent: process {status.pid} on {status.host} "
                "is gone, or has no way to the broker"
            )
        if time.monotonic() >= deadline_s:
            raise click.ClickException(
                f"{asked.pipeline} was asked to stop, and after {wait_s:g} s it is still {status.state}; "
                f"see: mainstem pipeline logs {asked.pipeline}"
            )
        time.sleep(LOOK_EVERY_S)


def _tell(line: str, status: RunStatus, as_json: bool) -> None:
    if as_json:
        emit_record(status_for_machines(status, wall_ms()), as_json=True)
    else:
        click.echo(line)


@contextlib.contextmanager
def _spinner(said: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    with console_on(sys.stderr).status(said):
        yield
