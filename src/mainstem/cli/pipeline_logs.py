"""`mainstem pipeline logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mainstem.cli.connect import connection_options
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, json_option, printable, remark
from mainstem.cli.pipeline_book import local_time, wall_ms
from mainstem.cli.when import parse_when
from mainstem.client.settings import ClientSettings
from mainstem.model.errors import InvalidRequest

if TYPE_CHECKING:
    from mainstem.pipeline.book import Book, Wish
    from mainstem.pipeline.book_records import Event

USUAL = 100


@click.command(
    "logs",
    epilog=examples(
        "mainstem pipeline logs orders                    # the last 100 lines",
        "mainstem pipeline logs orders -f                 # and new ones as they come",
        "mainstem pipeline logs orders --since '1h ago' --batches",
        "mainstem pipeline logs orders --json | jq -r 'select(.level == \"error\") | .text'",
    ),
)
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Do not end: print what comes.")
@click.option(
    "-n", "last", type=click.IntRange(min=1), metavar="N", help=f"Begin N lines before the end. [{USUAL}]"
)
@click.option("--since", metavar="WHEN", help="Begin there: '10m ago', or a time like 2031-05-04T12:00.")
@click.option("--run", default="", metavar="ID", help="Only of this run.")
@click.option("--batches", is_flag=True, help="Also a line for every batch of every query.")
@json_option
@connection_options
def command(
    name: str,
    follow: bool,
    last: int | None,
    since: str | None,
    run: str,
    batches: bool,
    as_json: bool,
    settings: ClientSettings,
) -> None:
    """Tell what happened to the pipeline NAME: changes of its state, warnings, errors. Kept for a week."""
    from mainstem.pipeline.book import Book, Wish

    if last is not None and since is not None:
        raise click.UsageError("-n and --since both say where to begin: leave one out.")
    since_ms = _since_ms(since)
    wish = Wish(
        last=None if since is not None else last or USUAL,
        since_ms=since_ms,
        run=run,
        kinds=("state", "log", "progress") if batches else ("state", "log"),
        follow=follow,
    )
    with Book(settings, wall_ms) as book:
        book.status(name)  # which says so if there is none
        try:
            count = _print(book, name, wish, as_json)
        except KeyboardInterrupt:
            return
    if not count and not as_json:
        remark("Nothing was logged.")


def _since_ms(text: str | None) -> int | None:
    if text is None:
        return None
    when = parse_when(text, wall_ms())
    if when.time_ms is None:
        raise InvalidRequest(f"{text!r} is no time: use '10m ago', or a time like 2031-05-04T12:00")
    return when.time_ms


def _print(book: Book, name: str, wish: Wish, as_json: bool) -> int:
    import msgspec

    count = 0
    for event in book.events(name, wish):
        count += 1
        if as_json:
            emit_record(msgspec.to_builtins(event), as_json=True)
        else:
            click.echo(_line(event))
    return count


def _line(event: Event) -> str:
    from mainstem.pipeline import screen_text as text

    head = f"{local_time(event.at_ms)}  {event.run}"
    if event.kind == "state":
        more = f": {event.text}" if event.text else ""
        return f"{head}  {'state':<7}  {event.state}{printable(more)}"
    if event.progress is None:
        return f"{head}  {event.level:<7}  {printable(event.text)}"
    batch = event.progress
    facts = [f"{text.number(batch.input_rows)} rows in", f"{text.number(batch.output_rows)} out"]
    facts += [f"lag {batch.lag:,}"] if batch.lag is not None else []
    facts.append(f"took {text.duration(batch.batch_ms)}")
    facts += [f"{text.number(one.last)} to {one.topic}" for one in batch.dead]
    return f"{head}  {'batch':<7}  {batch.query} {batch.batch}: {printable(', '.join(facts))}"
