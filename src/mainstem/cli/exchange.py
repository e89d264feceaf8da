"""`mainstem exchange`: what messages are published to, and what finds their queues."""

from __future__ import annotations

from typing import Any

import click

from mainstem.cli.door import Door, door_options, namespace_option
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    in_turn,
    json_option,
    listed,
    yes_option,
)
from mainstem.cli.values import json_pairs

KINDS = ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-local-random", "x-delayed-message")
DEFAULT = "(default)"


@click.group(
    "exchange",
    cls=Commands,
    epilog=examples("mainstem exchange ls", "mainstem exchange create shop --kind topic"),
)
def command() -> None:
    """List, create and delete exchanges."""


@command.command("ls", epilog=examples("mainstem exchange ls", "mainstem exchange ls 'shop*' --json"))
@click.argument("pattern", default="*")
@namespace_option
@json_option
@door_options
def ls(pattern: str, namespace: str, as_json: bool, door: Door) -> None:
    """List exchanges."""
    rows = door.rows("/admin/exchanges", namespace=namespace, match=pattern)
    columns = [
        Column("exchange", "exchange", show=lambda name: name or DEFAULT),
        Column("kind", "kind"),
        Column("bindings", "bindings", "right", "{:,}".format),
        Column("policy", "policy", show=lambda name: name or ""),
        Column("arguments", "arguments", show=_pairs),
    ]
    emit_rows(rows, columns, as_json=as_json, empty="No exchanges.")


@command.command(
    epilog=examples(
        "mainstem exchange create shop --kind topic",
        "mainstem exchange create shop --kind topic --alternate unrouted",
        "mainstem exchange create later --kind x-delayed-message -a x-delayed-type=direct",
    )
)
@click.argument("name")
@click.option("--kind", default="direct", show_default=True, help=f"One of {', '.join(KINDS)}.")
@click.option("--alternate", metavar="EXCHANGE", help="Gets what no binding matches.")
@click.option("--internal", is_flag=True, help="Only other exchanges may publish to it.")
@click.option("--transient", is_flag=True, help="It goes when the broker stops.")
@click.option("--auto-delete", is_flag=True, help="It goes with its last binding.")
@click.option(
    "--argument", "-a", "arguments", multiple=True, metavar="NAME=VALUE", help="Any argument of RabbitMQ's."
)
@namespace_option
@json_option
@door_options
def create(
    name: str, arguments: tuple[str, ...], namespace: str, as_json: bool, door: Door, **wishes: Any
) -> None:
    """Create an exchange. One that is there already, just like that, is left as it is."""
    wanted = json_pairs(arguments, "--argument")
    if wishes["alternate"] is not None:
        wanted["alternate-exchange"] = wishes["alternate"]
    fact = door.post(
        "/admin/exchanges",
        namespace=namespace,
        name=name,
        kind=wishes["kind"],
        durable=not wishes["transient"],
        auto_delete=wishes["auto_delete"],
        internal=wishes["internal"],
        arguments=wanted,
    )
    if as_json:
        emit_record(fact, as_json=True)
    else:
        click.echo(f"{name}: {'created' if fact['created'] else 'exists'}")


@command.command(
    epilog=examples("mainstem exchange delete shop", "mainstem exchange delete shop --if-unused -y")
)
@click.argument("names", nargs=-1, required=True)
@click.option("--if-unused", is_flag=True, help="Only if it has no bindings.")
@namespace_option
@yes_option
@json_option
@door_options
def delete(
    names: tuple[str, ...], if_unused: bool, namespace: str, yes: bool, as_json: bool, door: Door
) -> None:
    """Delete exchanges, and all bindings from them and to them."""
    confirm(f"delete {listed('exchange', names)} with all bindings", yes=yes)
    with in_turn(names) as each:
        for name in each:
            fact = door.delete("/admin/exchanges", namespace=namespace, name=name, if_unused=if_unused)
            if as_json:
                emit_record(fact, as_json=True)
            else:
                click.echo(f"{name}: deleted")


def _pairs(arguments: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in arguments.items())
