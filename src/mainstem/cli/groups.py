"""Command groups that guess what a mistyped word meant, and examples in every `--help`."""

from __future__ import annotations

import difflib
from typing import Any

import click

# Whatever a group calls it, both words work. Not listed: one name is enough to learn.
ALIASES = {"rm": "delete", "delete": "rm", "list": "ls"}


class Commands(click.Group):
    """A click group with did-you-mean for its commands (click itself does it for options)."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.commands.get(cmd_name) or self.commands.get(ALIASES.get(cmd_name, ""))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else f" There are: {', '.join(known)}."
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)


class Above(click.FloatRange):
    """A number above a bound, said in words."""

    def __init__(self, bound: float) -> None:
        super().__init__(min=bound, min_open=True)
        self._bound = bound

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value} must be a number above {self._bound:g}.", param, ctx)


def examples(*lines: str) -> str:
    """An epilog for a command; click keeps the line breaks of a block that starts with \\b."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
