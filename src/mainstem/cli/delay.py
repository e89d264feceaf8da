"""`mainstem delay`: messages that wait for their time."""

from __future__ import annotations

import click

from mainstem.cli.door import Door, door_options
from mainstem.cli.formats import time_text
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    human_bytes,
    in_turn,
    json_option,
    listed,
    yes_option,
)


@click.group(
    "delay",
    cls=Commands,
    epilog=examples("mainstem delay ls", "mainstem delay cancel 8"),
)
def command() -> None:
    """Messages that are published later."""


@command.command("ls", epilog=examples("mainstem delay ls", "mainstem delay ls -n 1000 --json"))
@click.option("-n", "limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@click.option("--namespace", "--vhost", "-N", metavar="NAME", help="Only those of this namespace.")
@json_option
@door_options
def ls(limit: int, namespace: str | None, as_json: bool, door: Door) -> None:
    """List those that are due next."""
    columns = [
        Column("id", "id", "right"),
        Column("due_ms", "due", show=time_text),
        Column("namespace", "namespace"),
        Column("exchange", "exchange"),
        Column("keys", "key", show=", ".join),
        Column("bytes", "size", "right", human_bytes),
    ]
    rows = door.rows("/admin/delays", limit=limit, namespace=namespace)
    emit_rows(rows, columns, as_json=as_json, empty="Nothing waits.")


@command.command(epilog=examples("mainstem delay cancel 8", "mainstem delay cancel 8 16 --yes"))
@click.argument("ids", nargs=-1, required=True, type=click.IntRange(min=0))
@yes_option
@json_option
@door_options
def cancel(ids: tuple[int, ...], yes: bool, as_json: bool, door: Door) -> None:
    """Drop messages before they are published."""
    confirm(f"drop {listed('message', ids)} for good", yes=yes)
    with in_turn(ids) as each:
        for id in each:
            fact = door.delete("/admin/delays", id=id)
            if as_json:
                emit_record(fact, as_json=True)
            else:
                click.echo(f"{id}: cancelled")
