"""How messages of queues are chosen by flags and printed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

import click

from mainstem.cli.formats import time_text
from mainstem.cli.output import Column, emit_rows, human_bytes, plural

_SHOWN = 80


def choice_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--key`, `--contains` and `--header`."""
    for option in (
        click.option("--header", metavar="NAME=VALUE", help="Only with this header."),
        click.option("--contains", metavar="TEXT", help="Only with this text in the body."),
        click.option("--key", metavar="KEY", help="Only with this routing key."),
    ):
        function = option(function)
    return function


def dead_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Those, and `--reason` and `--died-in`."""
    for option in (
        click.option("--died-in", metavar="QUEUE", help="Only what died in this queue."),
        click.option(
            "--reason",
            type=click.Choice(("rejected", "expired", "maxlen", "delivery_limit")),
            help="Only what died of this.",
        ),
    ):
        function = option(function)
    return choice_options(function)


def emit_letters(rows: Iterable[dict[str, Any]], *, as_json: bool, dead: bool = False) -> None:
    """A line for each; bodies are cut for people."""
    columns = [
        Column("id", "id", "right"),
        Column("came_ms", "time", show=time_text),
        Column("exchange", "exchange"),
        Column("keys", "key", show=", ".join),
        Column("bytes", "size", "right", human_bytes),
    ]
    if dead:
        columns += [
            Column("reason", "reason"),
            Column("died_in", "died in"),
            Column("deaths", "times", "right", _times),
        ]
    columns.append(Column("text", "body"))
    emit_rows(
        rows if as_json else ({**row, "text": _text(row)} for row in rows),
        columns,
        as_json=as_json,
        empty="No messages.",
    )


def _times(deaths: Any) -> str:
    return str(sum(death["count"] for death in deaths or []))


def _text(row: dict[str, Any]) -> str:
    if "body_base64" in row:
        data = base64.b64decode(row["body_base64"])
        text = data[: _SHOWN // 2].hex()
        return f"0x{text}..." if len(data) > _SHOWN // 2 or row.get("cut") else f"0x{text}"
    text = str(row.get("body", ""))
    return text[:_SHOWN] + "..." if len(text) > _SHOWN or row.get("cut") else text


def facts_of(row: dict[str, Any]) -> dict[str, object]:
    """One message, a line for each fact."""
    shown: dict[str, object] = {
        "id": row["id"],
        "state": row.get("state", ""),
        "time": time_text(row["came_ms"]),
        "exchange": row["exchange"],
        "key": ", ".join(row["keys"]),
        "size": human_bytes(row["bytes"]),
        "redelivered": row["redelivered"],
        "attempts": row["attempts"],
    }
    if "expires_ms" in row:
        shown["expires"] = time_text(row["expires_ms"])
    shown |= {f"property {name}": value for name, value in row["properties"].items()}
    shown |= {f"header {name}": _plain(value) for name, value in row["headers"].items()}
    for number, death in enumerate(row.get("deaths", []), 1):
        since = time_text(death["first_ms"])
        shown[f"death {number}"] = (
            f"{death['reason']} in {death['queue']}, {plural(death['count'], 'time')} since {since}"
            f" (exchange {death['exchange']!r}, key {', '.join(death['keys'])!r})"
        )
    shown["body"] = row.get("body", row.get("body_base64", ""))
    return shown


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
