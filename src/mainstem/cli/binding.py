"""`mainstem binding`: what leads from an exchange to queues and other exchanges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mainstem.cli.door import Door, door_options, namespace_option
from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import Column, confirm, emit_record, emit_rows, json_option, yes_option
from mainstem.cli.values import json_pairs


@click.group(
    "binding",
    cls=Commands,
    epilog=examples("mainstem binding ls", "mainstem binding create shop orders --key 'order.#'"),
)
def command() -> None:
    """List, create and delete bindings."""


@command.command(
    "ls", epilog=examples("mainstem binding ls", "mainstem binding ls orders    # from it or to it")
)
@click.argument("pattern", default="*")
@namespace_option
@json_option
@door_options
def ls(pattern: str, namespace: str, as_json: bool, door: Door) -> None:
    """List bindings; with a pattern, those that begin or end at a name that matches."""
    rows = door.rows("/admin/bindings", namespace=namespace, match=pattern)
    columns = [
        Column("source", "source"),
        Column("key", "key"),
        Column("target_kind", "to"),
        Column("target", "target"),
        Column("arguments", "arguments", show=lambda pairs: " ".join(f"{k}={v}" for k, v in pairs.items())),
    ]
    emit_rows(rows, columns, as_json=as_json, empty="No bindings.")


def _binding_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--argument",
            "-a",
            "arguments",
            multiple=True,
            metavar="NAME=VALUE",
            help="An argument, such as x-match or a header's value.",
        ),
        click.option("--to-exchange", is_flag=True, help="TARGET is an exchange, not a queue."),
        click.option("--key", "-k", default="", help="The routing key or its pattern."),
    ):
        function = option(function)
    return function


@command.command(
    epilog=examples(
        "mainstem binding create shop orders --key 'order.#'",
        "mainstem binding create shop audit --to-exchange",
        "mainstem binding create by-headers eu -a x-match=all -a region=eu",
    )
)
@click.argument("source")
@click.argument("target")
@_binding_options
@namespace_option
@json_option
@door_options
def create(
    source: str,
    target: str,
    arguments: tuple[str, ...],
    namespace: str,
    as_json: bool,
    door: Door,
    **given: Any,
) -> None:
    """Lead messages of the exchange SOURCE to the queue TARGET."""
    fact = door.post("/admin/bindings", **_asked(source, target, arguments, namespace, given))
    _say(fact, as_json, "created" if fact["created"] else "exists")


@command.command(epilog=examples("mainstem binding delete shop orders --key 'order.#' --yes"))
@click.argument("source")
@click.argument("target")
@_binding_options
@namespace_option
@yes_option
@json_option
@door_options
def delete(
    source: str,
    target: str,
    arguments: tuple[str, ...],
    namespace: str,
    yes: bool,
    as_json: bool,
    door: Door,
    **given: Any,
) -> None:
    """Delete one binding: key and arguments must be those it has."""
    confirm(f"delete the binding of {target!r} to {source!r} by the key {given['key']!r}", yes=yes)
    fact = door.post("/admin/bindings/delete", **_asked(source, target, arguments, namespace, given))
    _say(fact, as_json, "deleted")


def _asked(
    source: str, target: str, arguments: tuple[str, ...], namespace: str, given: dict[str, Any]
) -> dict[str, object]:
    return {
        "namespace": namespace,
        "source": source,
        "target": target,
        "target_kind": "exchange" if given["to_exchange"] else "queue",
        "key": given["key"],
        "arguments": json_pairs(arguments, "--argument"),
    }


def _say(fact: dict[str, Any], as_json: bool, done: str) -> None:
    if as_json:
        emit_record(fact, as_json=True)
    else:
        click.echo(f"{fact['source']} -> {fact['target']} ({fact['key']}): {done}")
