"""`mainstem serve`: run a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping

import click

from mainstem.cli.groups import examples
from mainstem.cli.settings import settings_options
from mainstem.config import USUAL_PORTS, Config


@click.command(
    "serve",
    epilog=examples(
        "mainstem serve                                   # Kafka on 127.0.0.1:9092, data in ./mainstem-data",
        "mainstem serve --data /var/lib/mainstem --listen kafka=127.0.0.1:19092",
        "mainstem serve --listen kafka=127.0.0.1:0 --ready-file ready.json   # any free port, told in a file",
        "mainstem serve --set topics.default_partitions=4",
    ),
)
@settings_options
def command(config: Config) -> None:
    """Run a broker. Ctrl-C or SIGTERM lets requests under way finish, then stops it."""
    from mainstem.app import App, serve
    from mainstem.observe.logging import start_logging

    start_logging(config.log.level, config.log.format, sys.stderr)

    def started(app: App) -> None:
        if config.log.format == "json":
            log_started(config, app.listening)
            return
        click.echo(f"Mainstem is ready. Data: {config.server.data.resolve()}", err=True)
        for name, where in app.listening.items():
            click.echo(f"  {name:<10} {where}", err=True)
        for line in unheard(app.listening):
            click.echo(f"  {line}", err=True)
        if config.topics.durability == "os":
            click.echo(
                "  WARNING: topics.durability = os. A power cut may take acknowledged messages.", err=True
            )
        click.echo("Stop it with Ctrl-C.", err=True)

    asyncio.run(serve(config, started))


def log_started(config: Config, listening: Mapping[str, object]) -> None:
    """What people read on the screen, for who reads the log by machine: nothing else is written there."""
    from mainstem.model.logs import get_log

    events = get_log(__name__)
    if config.topics.durability == "os":
        events.warning("a power cut may take acknowledged messages", setting="topics.durability = os")
    where = {name: str(endpoint) for name, endpoint in listening.items()}
    events.event("Mainstem is ready", data=str(config.server.data.resolve()), listen=where)


def unheard(listening: Iterable[str]) -> list[str]:
    """A line for every protocol that does not listen because others were named."""
    heard = {name.partition("+")[0] for name in listening}
    return [
        f"{name:<10} off: not among the listeners that were named; add --listen {name}=127.0.0.1:{port}"
        for name, port in USUAL_PORTS.items()
        if name not in heard
    ]
