"""`mainstem pipeline status`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import Column, console_on, emit_record, emit_rows, json_option, printable
from mainstem.cli.pipeline_book import local_time, status_for_machines, wall_ms
from mainstem.client.settings import ClientSettings

if TYPE_CHECKING:
    from mainstem.pipeline.book import Book
    from mainstem.pipeline.progress import RunStatus

LOOK_EVERY_S = 1.0


@click.command(
    "status",
    epilog=examples(
        "mainstem pipeline status orders",
        "mainstem pipeline status orders --watch          # live, until the run ends or Ctrl-C",
        "mainstem pipeline status orders --json | jq .lag",
    ),
)
@click.argument("name")
@click.option("--watch", "-w", is_flag=True, help="Show it live until the run is over.")
@json_option
@connection_options
def command(name: str, watch: bool, as_json: bool, settings: ClientSettings) -> None:
    """Tell how the newest run of the pipeline NAME is, query by query."""
    from mainstem.pipeline.book import Book

    with Book(settings, wall_ms) as book:
        first = book.status(name)
        if not watch:
            _tell(first, as_json)
            return
        try:
            if as_json:
                for status in _changes(book, first):
                    emit_record(status_for_machines(status, wall_ms()), as_json=True)
            else:
                _show(book, first)
        except KeyboardInterrupt:
            pass


def _tell(status: RunStatus, as_json: bool) -> None:
    now_ms = wall_ms()
    facts = status_for_machines(status, now_ms)
    if as_json:
        emit_record(facts, as_json=True)
        return
    from mainstem.pipeline.screen_text import dead_letters, duration, number

    shown = facts["state"]
    heard = f", not heard of for {duration(now_ms - status.at_ms)}" if shown == "lost" else ""
    record = {
        "pipeline": status.pipeline,
        "state": f"{shown}{heard}",
        "run": status.run,
        "mode": status.mode,
        "since": local_time(status.started_ms),
        "last said": local_time(status.at_ms),
        "rows in": number(status.rows_in),
        "rows out": number(status.rows_out),
        "dead letters": dead_letters(status.dead) or "none",
        "host": f"{status.host}, process {status.pid}",
        "master": status.master,
        "files": " ".join(status.files),
        "checkpoints": status.checkpoints,
    }
    emit_record(record, as_json=False)
    if status.error:
        click.echo("error")
        for line in status.error.splitlines():
            click.echo(f"  {printable(line)}")
    if status.queries:
        click.echo()
        _tell_queries(status)


def _tell_queries(status: RunStatus) -> None:
    from mainstem.pipeline import screen_text as text

    rows = [
        {
            "query": one.query,
            "batch": text.number(one.batch),
            "in": text.rate_in(one),
            "out": text.rate_out(one),
            "lag": text.number(one.lag),
            "took": text.duration(one.batch_ms),
            "watermark (UTC)": text.event_time(one.watermark_ms),
            "state": text.state(one.state_rows, one.state_bytes),
        }
        for one in status.queries
    ]
    right = {"batch", "in", "out", "lag", "took"}
    emit_rows(rows, [Column(key, key, "right" if key in right else "left") for key in rows[0]], as_json=False)


def _changes(book: Book, first: RunStatus) -> Iterator[RunStatus]:
    """Each status that is new, until the run is over or lost."""
    from mainstem.pipeline.book_records import is_alive

    status = first
    yield status
    while is_alive(status, wall_ms()):
        time.sleep(LOOK_EVERY_S)
        now = book.status(status.pipeline)
        if now != status or not is_alive(now, wall_ms()):
            status = now
            yield status


def _show(book: Book, first: RunStatus) -> None:
    import sys

    from mainstem.pipeline.screen import Screen

    with Screen(console_on(sys.stdout), wall_ms, is_whole=False) as screen:
        for status in _changes(book, first):
            screen.update(status)
