"""`mainstem policy`: options for all queues and exchanges whose name matches."""

from __future__ import annotations

import json
from typing import Any

import click

from mainstem.cli.door import Door, door_options, namespace_option
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import Column, confirm, emit_record, emit_rows, json_option, yes_option
from mainstem.cli.values import json_pairs

APPLY_TO = ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")


@click.group(
    "policy",
    cls=Commands,
    epilog=examples(
        "mainstem policy ls", "mainstem policy set short '^tmp' max-length=1000 message-ttl=60000"
    ),
)
def command() -> None:
    """Options for queues and exchanges by a pattern of their names."""


@command.command("ls", epilog=examples("mainstem policy ls", "mainstem policy ls --json"))
@namespace_option
@json_option
@door_options
def ls(namespace: str, as_json: bool, door: Door) -> None:
    """List policies, the most important first."""
    columns = [
        Column("policy", "policy"),
        Column("pattern", "pattern"),
        Column("apply_to", "for"),
        Column("priority", "priority", "right"),
        Column("definition", "definition", show=json.dumps),
    ]
    emit_rows(
        door.rows("/admin/policies", namespace=namespace), columns, as_json=as_json, empty="No policies."
    )


@command.command(
    "set",
    epilog=examples(
        "mainstem policy set short '^tmp' max-length=1000 message-ttl=60000",
        "mainstem policy set dead '' dead-letter-exchange=graveyard --apply-to queues --priority 5",
    ),
)
@click.argument("name")
@click.argument("pattern")
@click.argument("definition", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option(
    "--apply-to", type=click.Choice(APPLY_TO), default="all", show_default=True, help="What it is for."
)
@click.option(
    "--priority", type=int, default=0, show_default=True, help="Of those that match the highest counts."
)
@namespace_option
@json_option
@door_options
def set_policy(
    name: str, pattern: str, definition: tuple[str, ...], as_json: bool, door: Door, **asked: Any
) -> None:
    """Set a policy, in place of one of that name.

    PATTERN is a regular expression that may match anywhere in a name. Keys: message-ttl, expires, max-length,
    max-length-bytes, overflow, dead-letter-exchange, dead-letter-routing-key, delivery-limit,
    alternate-exchange.
    """
    fact = door.post(
        "/admin/policies", name=name, pattern=pattern, definition=json_pairs(definition, "KEY=VALUE"), **asked
    )
    if as_json:
        emit_record(fact, as_json=True)
    else:
        click.echo(f"{name}: {'created' if fact['created'] else 'replaced'}")


@command.command(epilog=examples("mainstem policy delete short --yes"))
@click.argument("name")
@namespace_option
@yes_option
@json_option
@door_options
def delete(name: str, namespace: str, yes: bool, as_json: bool, door: Door) -> None:
    """Delete a policy: queues have their own options again."""
    confirm(f"delete policy {name!r}", yes=yes)
    fact = door.delete("/admin/policies", namespace=namespace, name=name)
    if as_json:
        emit_record(fact, as_json=True)
    else:
        click.echo(f"{name}: deleted")
