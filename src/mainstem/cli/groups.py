"""Command groups that guess what a mistyped word meant, and examples in every `--help`."""

from __future__ import annotations

import difflib

import click


class Commands(click.Group):
    """A click group with did-you-mean for its commands (click itself does it for options)."""

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


def examples(*lines: str) -> str:
    """An epilog for a command; click keeps the line breaks of a block that starts with \\b."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
