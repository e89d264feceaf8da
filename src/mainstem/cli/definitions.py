"""`mainstem definitions`: RabbitMQ's definition files, in and out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from mainstem.cli.door import Door, door_options
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import emit_record, json_option, plural, remark
from mainstem.model.errors import InvalidRequest, QueueError


@click.group(
    "definitions",
    cls=Commands,
    epilog=examples(
        "mainstem definitions export broker.json", "mainstem definitions import broker.json --dry-run"
    ),
)
def command() -> None:
    """Namespaces, exchanges, queues, bindings, policies and permissions as a file of RabbitMQ's."""


@command.command(
    epilog=examples(
        "mainstem definitions export broker.json", "mainstem definitions export -N shop | jq .queues"
    )
)
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--namespace", "--vhost", "-N", metavar="NAME", help="Only this namespace.")
@door_options
def export(file: Path | None, namespace: str | None, door: Door) -> None:
    """Write FILE, or to standard output."""
    answer = door.get("/admin/definitions", namespace=namespace)
    found = answer["definitions"]
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if file is None:
        click.echo(text, nl=False)
    else:
        file.write_text(text)
        kinds = ("vhosts", "users", "permissions", "policies", "exchanges", "queues", "bindings")
        click.echo(f"{file}: {', '.join(f'{len(found[kind]):,} {kind}' for kind in kinds)}")
    for what in answer["left_out"]:
        remark(f"Left out: {what}.")


@command.command(
    "import",
    epilog=examples(
        "mainstem definitions import broker.json --dry-run",
        "mainstem definitions import broker.json --json | jq 'select(.outcome != \"created\" or .left_out)'",
    ),
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option(
    "--namespace", "--vhost", "-N", default="/", metavar="NAME", help="For what names no vhost. [/]"
)
@click.option("--dry-run", is_flag=True, help="Check everything, and make nothing.")
@click.option("--all", "show_all", is_flag=True, help="A line for each thing, also where all is well.")
@json_option
@door_options
def take_over(file: Path, namespace: str, dry_run: bool, show_all: bool, as_json: bool, door: Door) -> None:
    """Make what a file of RabbitMQ's has. What is there already stays; a policy of the same name changes.

    Users and permissions count where people must log in (security.authentication).

    What cannot be taken over is listed with the reason: it is never dropped without a word.
    """
    counts: dict[tuple[str, str], int] = {}
    rows = door.post_rows("/admin/definitions", namespace=namespace, definitions=_read(file), dry_run=dry_run)
    for row in rows:
        key = (row["what"], row["outcome"])
        counts[key] = counts.get(key, 0) + 1
        if as_json:
            emit_record(row, as_json=True)
        elif show_all or row["outcome"] in ("failed", "unsupported") or "left_out" in row:
            why = row.get("why") or row.get("left_out")
            click.echo(f"{row['what']} {row['name']}: {row['outcome']}{f': {why}' if why else ''}")
    for (what, outcome), count in counts.items():
        remark(f"{what}: {count:,} {outcome}")
    failed = sum(count for (_, outcome), count in counts.items() if outcome == "failed")
    if failed:
        raise QueueError(f"{plural(failed, 'thing')} could not be made")


def _read(file: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        found = json.loads(text)
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidRequest(f"{file} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidRequest(f"{file} is no definitions file: that is one JSON object")
    return found
