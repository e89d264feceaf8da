"""`mainstem queue`: queues as RabbitMQ's clients know them."""

from __future__ import annotations

from typing import Any

import click

from mainstem.cli.door import Door, door_options, namespace_option
from mainstem.cli.groups import Commands, examples
from mainstem.cli.letters import choice_options, emit_letters
from mainstem.cli.output import (
    NO_WAY_BACK,
    Column,
    confirm,
    emit_record,
    emit_rows,
    human_bytes,
    in_turn,
    json_option,
    listed,
    plural,
    yes_option,
)
from mainstem.cli.values import Duration, json_pairs

NUMBER = "{:,}".format


@click.group(
    "queue",
    cls=Commands,
    epilog=examples(
        "mainstem queue ls",
        "mainstem queue create orders --dead-letters-to orders.dead",
        "mainstem queue peek orders -n 3",
    ),
)
def command() -> None:
    """List, create, look into, empty and delete queues."""


@command.command(
    "ls",
    epilog=examples("mainstem queue ls", "mainstem queue ls 'orders.*' --json", "mainstem queue ls -N shop"),
)
@click.argument("pattern", default="*")
@namespace_option
@json_option
@door_options
def ls(pattern: str, namespace: str, as_json: bool, door: Door) -> None:
    """List queues with how much is in them. BYTES are known where a queue has a limit on them."""
    rows = door.rows("/admin/queues", namespace=namespace, match=pattern)
    columns = [
        Column("queue", "queue"),
        Column("kind", "kind"),
        *(Column(key, key, "right", NUMBER) for key in ("ready", "unacked", "consumers")),
        Column("bytes", "bytes", "right", lambda count: "" if count is None else human_bytes(count)),
        Column("policy", "policy", show=lambda name: name or ""),
        Column("arguments", "arguments", show=_pairs),
    ]
    emit_rows(rows, columns, as_json=as_json, empty="No queues.")


@command.command(
    epilog=examples(
        "mainstem queue create orders",
        "mainstem queue create orders --dead-letters-to orders.dead --ttl 1h --max-length 100000",
        "mainstem queue create jobs --kind quorum -a x-delivery-limit=5",
    )
)
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--kind",
    type=click.Choice(("classic", "quorum", "stream")),
    default="classic",
    help="What kind. [classic]",
)
@click.option("--dead-letters-to", metavar="QUEUE", help="Where refused and expired messages go.")
@click.option("--ttl", type=Duration(), help="Messages that are older go.")
@click.option("--max-length", type=click.IntRange(min=0), help="So many messages at most.")
@click.option("--priorities", type=click.IntRange(1, 255), help="Levels of priority: 0 to this.")
@click.option("--transient", is_flag=True, help="It goes when the broker stops.")
@click.option("--auto-delete", is_flag=True, help="It goes with its last consumer.")
@click.option(
    "--argument", "-a", "arguments", multiple=True, metavar="NAME=VALUE", help="Any argument of RabbitMQ's."
)
@namespace_option
@json_option
@door_options
def create(
    names: tuple[str, ...],
    arguments: tuple[str, ...],
    namespace: str,
    as_json: bool,
    door: Door,
    **wishes: Any,
) -> None:
    """Create queues. One that is there already, with the same arguments, is left as it is."""
    wanted = {**_wanted(wishes), **json_pairs(arguments, "--argument")}
    with in_turn(names) as each:
        for name in each:
            fact = door.post(
                "/admin/queues",
                namespace=namespace,
                name=name,
                durable=not wishes["transient"],
                auto_delete=wishes["auto_delete"],
                arguments=wanted,
            )
            if as_json:
                emit_record(fact, as_json=True)
            else:
                click.echo(f"{name}: {'created' if fact['created'] else 'exists'}")


def _wanted(wishes: dict[str, Any]) -> dict[str, Any]:
    """Flags as arguments of a declaration."""
    wanted: dict[str, Any] = {} if wishes["kind"] == "classic" else {"x-queue-type": wishes["kind"]}
    if wishes["dead_letters_to"] is not None:
        wanted |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wishes["dead_letters_to"]}
    named = {"x-message-ttl": "ttl", "x-max-length": "max_length", "x-max-priority": "priorities"}
    return wanted | {name: wishes[flag] for name, flag in named.items() if wishes[flag] is not None}


@command.command(
    epilog=examples("mainstem queue delete orders", "mainstem queue delete old-1 old-2 --if-empty -y")
)
@click.argument("names", nargs=-1, required=True)
@click.option("--if-empty", is_flag=True, help="Only if it holds no messages.")
@click.option("--if-unused", is_flag=True, help="Only if it has no consumers.")
@namespace_option
@yes_option
@json_option
@door_options
def delete(
    names: tuple[str, ...],
    if_empty: bool,
    if_unused: bool,
    namespace: str,
    yes: bool,
    as_json: bool,
    door: Door,
) -> None:
    """Delete queues with everything in them."""
    count = sum(_ready(door, namespace, name) for name in names)
    confirm(f"delete {listed('queue', names)} with {plural(count, 'message')}", NO_WAY_BACK, yes=yes)
    with in_turn(names) as each:
        for name in each:
            fact = door.delete(
                "/admin/queues", namespace=namespace, name=name, if_empty=if_empty, if_unused=if_unused
            )
            if as_json:
                emit_record(fact, as_json=True)
            else:
                click.echo(f"{name}: deleted, with {plural(fact['messages'], 'message')}")


@command.command(epilog=examples("mainstem queue purge orders", "mainstem queue purge orders --yes --json"))
@click.argument("names", nargs=-1, required=True)
@namespace_option
@yes_option
@json_option
@door_options
def purge(names: tuple[str, ...], namespace: str, yes: bool, as_json: bool, door: Door) -> None:
    """Drop all messages of queues, but for those that consumers hold."""
    count = sum(_ready(door, namespace, name) for name in names)
    confirm(f"drop {plural(count, 'message')} of {listed('queue', names)}", NO_WAY_BACK, yes=yes)
    with in_turn(names) as each:
        for name in each:
            fact = door.post("/admin/queues/purge", namespace=namespace, name=name)
            if as_json:
                emit_record(fact, as_json=True)
            else:
                click.echo(f"{name}: dropped {plural(fact['purged'], 'message')}")


@command.command(
    epilog=examples(
        "mainstem queue peek orders",
        "mainstem queue peek orders -n 100 --header region=eu --json",
        "mainstem queue peek orders --unacked      # what consumers hold",
    )
)
@click.argument("name")
@click.option("-n", "limit", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many.")
@click.option("--unacked", is_flag=True, help="Those that consumers hold, instead of those that are ready.")
@choice_options
@namespace_option
@json_option
@door_options
def peek(
    name: str, limit: int, unacked: bool, namespace: str, as_json: bool, door: Door, **chosen: Any
) -> None:
    """Look at the next messages. They stay where they are, as they are."""
    rows = door.rows(
        "/admin/messages",
        namespace=namespace,
        queue=name,
        limit=limit,
        unacked=unacked or None,
        **chosen,
    )
    emit_letters(rows, as_json=as_json)


def _ready(door: Door, namespace: str, name: str) -> int:
    (row,) = door.rows("/admin/queues", namespace=namespace, name=name)
    return int(row["ready"])


def _pairs(arguments: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in arguments.items())
