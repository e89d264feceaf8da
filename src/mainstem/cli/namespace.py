"""`mainstem namespace`: worlds of queues apart from each other; AMQP calls them vhosts."""

from __future__ import annotations

import click

from mainstem.cli.door import Door, door_options
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    in_turn,
    json_option,
    plural,
    yes_option,
)


@click.group(
    "namespace",
    cls=Commands,
    epilog=examples("mainstem namespace ls", "mainstem namespace create shop"),
)
def command() -> None:
    """List, create and delete namespaces (vhosts)."""


@command.command("ls", epilog=examples("mainstem namespace ls", "mainstem namespace ls --json"))
@json_option
@door_options
def ls(as_json: bool, door: Door) -> None:
    """List namespaces."""
    counts = [Column(key, key, "right", "{:,}".format) for key in ("queues", "exchanges", "policies")]
    emit_rows(
        door.rows("/admin/namespaces"),
        [Column("namespace", "namespace"), *counts],
        as_json=as_json,
        empty="None.",
    )


@command.command(epilog=examples("mainstem namespace create shop"))
@click.argument("names", nargs=-1, required=True)
@json_option
@door_options
def create(names: tuple[str, ...], as_json: bool, door: Door) -> None:
    """Create namespaces."""
    with in_turn(names) as each:
        for name in each:
            fact = door.post("/admin/namespaces", name=name)
            if as_json:
                emit_record(fact, as_json=True)
            else:
                click.echo(f"{name}: {'created' if fact['created'] else 'exists'}")


@command.command(epilog=examples("mainstem namespace delete shop", "mainstem namespace delete shop --yes"))
@click.argument("name")
@yes_option
@json_option
@door_options
def delete(name: str, yes: bool, as_json: bool, door: Door) -> None:
    """Delete a namespace with all that is in it."""
    confirm(f"delete namespace {name!r} with all its queues and messages", yes=yes)
    fact = door.delete("/admin/namespaces", name=name)
    if as_json:
        emit_record(fact, as_json=True)
    else:
        gone = f"{plural(fact['queues'], 'queue')} and {plural(fact['messages'], 'message')}"
        click.echo(f"{name}: deleted, with {gone}")
