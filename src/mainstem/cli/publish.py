"""`mainstem publish`: messages to an exchange or a queue."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from typing import Any

import click

from mainstem.cli.connect import close_to
from mainstem.cli.door import Door, door_options, namespace_option
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, json_option, plural
from mainstem.cli.values import Duration, json_pairs
from mainstem.model.errors import QueueError, ResourceNotFound

# Sent in one request.
MESSAGES_AT_ONCE = 1000
BYTES_AT_ONCE = 512 << 10


@click.command(
    "publish",
    epilog=examples(
        "mainstem publish --queue orders 'one order'",
        "mainstem publish --exchange shop --key order.new '{\"id\": 7}' -P content_type=application/json",
        "seq 1000 | mainstem publish --queue numbers --lines",
        "mainstem publish --queue orders --delay 10m 'not now'",
    ),
)
@click.argument("body", required=False)
@click.option("--queue", "-q", metavar="QUEUE", help="Straight to this queue.")
@click.option("--exchange", "-x", metavar="EXCHANGE", help="To this exchange.")
@click.option("--key", "-k", default="", help="The routing key.")
@click.option("--lines", is_flag=True, help="A message for each line of standard input.")
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header.")
@click.option(
    "--property",
    "-P",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="content_type, priority, expiration, ...",
)
@click.option("--delay", type=Duration(), default=0, help="Publish it so much later: 500ms, 10s, 3d.")
@namespace_option
@json_option
@door_options
def command(body: str | None, namespace: str, as_json: bool, door: Door, **asked: Any) -> None:
    """Publish messages, and say where they went. Done means on disk.

    BODY is the message; without it, what standard input has.
    """
    exchange, key = _target(asked)
    message = {
        "headers": json_pairs(asked["headers"], "--header"),
        "properties": _properties(asked["properties"]),
        "delay_ms": asked["delay"],
    }
    counts: dict[str, int] = {}
    if asked["queue"] is not None and asked["delay"]:
        hint = _no_queue(door, namespace, key)
        if hint:
            click.echo(f"{hint} If there is none when it is due, the message is dropped.", err=True)
    for bodies in _requests(body, asked["lines"]):
        messages = [{**message, **_body(one)} for one in bodies]
        fact = door.post("/admin/publish", namespace=namespace, exchange=exchange, key=key, messages=messages)
        for outcome in fact["messages"]:
            counts[outcome["outcome"]] = counts.get(outcome["outcome"], 0) + 1
            if as_json:
                emit_record(outcome, as_json=True)
            elif len(messages) == 1:
                _say(outcome)
    if not as_json and sum(counts.values()) != 1:
        click.echo(
            ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items()) or "nothing to publish"
        )
    if asked["queue"] is not None and counts.get("unroutable"):
        raise ResourceNotFound(_no_queue(door, namespace, key) or "the queue was deleted just now")
    lost = sum(count for outcome, count in counts.items() if outcome in ("unroutable", "refused"))
    if lost:
        raise QueueError(f"{plural(lost, 'message')} went nowhere")


def _no_queue(door: Door, namespace: str, name: str) -> str | None:
    """None if there is a queue, or a topic, of this name."""
    names = [str(row["queue"]) for row in door.rows("/admin/queues", namespace=namespace)]
    return None if name in names else f"there is no queue {name!r}.{close_to(name, names)}"


def _target(asked: dict[str, Any]) -> tuple[str, str]:
    if (asked["queue"] is None) == (asked["exchange"] is None):
        raise click.UsageError("Where to? Give --queue, or --exchange with --key.")
    if asked["queue"] is None:
        return asked["exchange"], asked["key"]
    if asked["key"]:
        raise click.UsageError("--key is for --exchange: a queue is reached by its name.")
    return "", asked["queue"]


def _properties(texts: tuple[str, ...]) -> dict[str, Any]:
    """Numbers where they are numbers, text for all others."""
    numbers = ("priority", "delivery_mode", "timestamp")
    pairs = json_pairs(texts, "--property")
    raw = dict(text.partition("=")[::2] for text in texts)
    return {name: value if name in numbers else raw.get(name, str(value)) for name, value in pairs.items()}


def _requests(body: str | None, lines: bool) -> Iterator[list[bytes]]:
    if body is not None:
        if lines:
            raise click.UsageError("BODY or --lines, not both.")
        yield [body.encode("utf-8", "surrogateescape")]
        return
    if not lines:
        yield [sys.stdin.buffer.read()]
        return
    held: list[bytes] = []
    size = 0
    for line in sys.stdin.buffer:
        held.append(line.rstrip(b"\r\n"))
        size += len(line)
        if len(held) >= MESSAGES_AT_ONCE or size >= BYTES_AT_ONCE:
            yield held
            held, size = [], 0
    if held:
        yield held


def _body(data: bytes) -> dict[str, str]:
    try:
        return {"body": data.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(data).decode()}


def _say(outcome: dict[str, Any]) -> None:
    if outcome["outcome"] == "published":
        click.echo(f"published to {', '.join(outcome['queues'])}")
    elif outcome["outcome"] == "delayed":
        from mainstem.cli.formats import time_text

        click.echo(f"delayed until {time_text(outcome['due_ms'])}")
    else:
        click.echo(f"{outcome['outcome']}: {outcome.get('why', 'no binding matches')}")
