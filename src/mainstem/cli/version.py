"""`mainstem version`: what is running here."""

from __future__ import annotations

import platform

import click

from mainstem import __version__
from mainstem.cli.groups import examples
from mainstem.cli.output import emit_record, json_option


@click.command("version", epilog=examples("mainstem version", "mainstem version --json"))
@json_option
def command(as_json: bool) -> None:
    """Say which version this is, and on what it runs."""
    facts = {
        "mainstem": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    emit_record(facts, as_json=as_json)
