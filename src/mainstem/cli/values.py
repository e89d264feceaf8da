"""Values of flags as people write them: times with a unit, and pairs whose value may be JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import click

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


class Duration(click.ParamType[int]):
    """`500ms`, `10s`, `1.5h`; in milliseconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no time: use 500ms, 10s, 5m, 2h, 3d or 1w", param, ctx)
        return round(float(found[1]) * _UNITS_MS[found[2]])


def json_pairs(texts: Iterable[str], flag: str) -> dict[str, Any]:
    """NAME=VALUE as often as a flag was given; a value that is JSON is what it says, else it is text."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{flag} {text}: must be NAME=VALUE")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            found[name.strip()] = value
    return found
