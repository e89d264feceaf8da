"""`mainstem dlq`: dead letters: what died of what, and another try for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from mainstem.cli.door import Door, door_options, namespace_option
from mainstem.cli.groups import Commands, examples
from mainstem.cli.letters import dead_options, emit_letters, facts_of
from mainstem.cli.output import (
    Column,
    confirm,
    emit_record,
    emit_rows,
    json_option,
    plural,
    remark,
    yes_option,
)
from mainstem.cli.values import json_pairs
from mainstem.model.errors import QueueError

NUMBER = "{:,}".format


@click.group(
    "dlq",
    cls=Commands,
    epilog=examples(
        "mainstem dlq ls                      # queues that dead letters go to",
        "mainstem dlq ls orders.dead          # the dead letters in one",
        "mainstem dlq redrive orders.dead --reason rejected --dry-run",
    ),
)
def command() -> None:
    """Dead letters: list, show, and send back."""


@command.command(
    "ls",
    epilog=examples(
        "mainstem dlq ls",
        "mainstem dlq ls orders.dead --reason expired -n 50",
        "mainstem dlq ls orders.dead --json",
    ),
)
@click.argument("queue", required=False)
@click.option("-n", "limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many.")
@dead_options
@namespace_option
@json_option
@door_options
def ls(queue: str | None, limit: int, namespace: str, as_json: bool, door: Door, **chosen: Any) -> None:
    """List queues that dead letters go to, or the dead letters in QUEUE."""
    if queue is not None:
        rows = door.rows(
            "/admin/messages", namespace=namespace, queue=queue, limit=limit, dead=True, **chosen
        )
        emit_letters(rows, as_json=as_json, dead=True)
        return
    columns = [
        Column("queue", "queue"),
        *(Column(key, key, "right", NUMBER) for key in ("ready", "unacked", "consumers")),
        Column("from", "from", show=", ".join),
    ]
    emit_rows(
        door.rows("/admin/dead-letters", namespace=namespace),
        columns,
        as_json=as_json,
        empty="No queue has dead letters sent anywhere.",
    )


@command.command(
    epilog=examples("mainstem dlq show orders.dead 17", "mainstem dlq show orders.dead 17 --json")
)
@click.argument("queue")
@click.argument("id")
@namespace_option
@json_option
@door_options
def show(queue: str, id: str, namespace: str, as_json: bool, door: Door) -> None:
    """Show one message in full, with the history of its deaths."""
    row = door.get("/admin/message", namespace=namespace, queue=queue, id=id)
    emit_record(row if as_json else facts_of(row), as_json=as_json)


@command.command(
    epilog=examples(
        "mainstem dlq redrive orders.dead --dry-run",
        "mainstem dlq redrive orders.dead --reason rejected --limit 100 --yes",
        "mainstem dlq redrive orders.dead 17 18 --set-header fixed=true --fresh",
        'mainstem dlq redrive orders.dead 17 --body \'{"id": 7, "amount": 12}\'',
        "mainstem dlq redrive orders.dead --to parking-lot",
    )
)
@click.argument("queue")
@click.argument("ids", nargs=-1)
@click.option("--limit", type=click.IntRange(min=1), help="So many at most.")
@dead_options
@click.option("--to", "to_queue", metavar="QUEUE", help="To this queue, not the one they died in.")
@click.option("--to-exchange", metavar="EXCHANGE", help="Published anew to this exchange.")
@click.option("--as-published", is_flag=True, help="Published anew as at first: every queue gets it again.")
@click.option("--new-key", metavar="KEY", help="With this routing key.")
@click.option("--body", metavar="TEXT", help="With this body.")
@click.option("--set-header", multiple=True, metavar="NAME=VALUE", help="With this header.")
@click.option("--drop-header", multiple=True, metavar="NAME", help="Without this header.")
@click.option("--fresh", is_flag=True, help="Without the history of deaths (x-death).")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and do nothing.")
@namespace_option
@yes_option
@json_option
@door_options
def redrive(queue: str, ids: tuple[str, ...], yes: bool, as_json: bool, door: Door, **asked: Any) -> None:
    """Send dead letters back to the queue they died in, or elsewhere. Each says what became of it.

    Without IDS all of them that fit. A message is published and taken out of QUEUE in one step: it is never
    lost, and never in both places.
    """
    dry_run = asked["dry_run"]
    if not dry_run:
        what = plural(len(ids), "message") if ids else "all that fits"
        same = ", each with the same body" if asked["body"] is not None and len(ids) != 1 else ""
        confirm(f"move {what} out of queue {queue!r}{same}", "See what would go where: --dry-run.", yes=yes)
    asked["set_headers"] = json_pairs(asked.pop("set_header"), "--set-header")
    asked["drop_headers"] = list(asked.pop("drop_header"))
    rows = door.post_rows("/admin/redrive", queue=queue, ids=list(ids) or None, **asked)
    counts: dict[str, int] = {}
    _emit(rows, counts, as_json)
    stayed = sum(count for outcome, count in counts.items() if outcome not in ("moved", "would move"))
    if not counts:
        remark("No messages to move.")
    elif not as_json:
        remark(", ".join(f"{count:,} {outcome}" for outcome, count in counts.items()))
    if stayed and not dry_run:
        raise QueueError(f"{plural(stayed, 'message')} not moved")


def _emit(rows: Iterable[dict[str, Any]], counts: dict[str, int], as_json: bool) -> None:
    for row in rows:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
        if as_json:
            emit_record(row, as_json=True)
        else:
            where = f" to {', '.join(row['to'])}" if "to" in row else f": {row.get('why', '')}"
            click.echo(f"{row['id']}  {row['outcome']}{where}")
