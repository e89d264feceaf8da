"""`mainstem pipeline`: what Spark computes over topics, from files. Each verb is a module of its own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

from mainstem.cli.groups import Commands, examples

VERBS: Mapping[str, str] = {
    "init": "Write a pipeline to begin with.",
    "validate": "Find what is wrong, without Spark.",
    "explain": "Show what reads what, and Spark's plan.",
    "run": "Run a pipeline.",
    "ls": "List pipelines and how they are.",
    "status": "Tell how one pipeline is.",
    "logs": "Tell what happened to one pipeline.",
    "stop": "Ask a pipeline to stop, wherever it runs.",
    "backfill": "Compute over history, as one batch.",
    "reset": "Forget how far a pipeline is.",
}


class Verbs(Commands):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = {"list": "ls"}.get(cmd_name, cmd_name)
        if name not in VERBS:
            return None
        command = importlib.import_module(f"mainstem.cli.pipeline_{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    epilog=examples(
        "mainstem pipeline init orders       # writes orders.sql",
        "mainstem pipeline validate orders.sql",
        "mainstem pipeline run orders.sql    # until Ctrl-C",
        "mainstem pipeline status orders     # from any machine",
    ),
)
def command() -> None:
    """Data pipelines: SQL or Python files over topics, run by Spark."""
