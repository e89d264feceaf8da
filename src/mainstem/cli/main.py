"""`mainstem`: one command with many sub-commands, each loaded only when it is used.

Exit codes: 0 done, 1 it failed, 2 the request itself was wrong (usage, settings, names). A sub-command is a
module of this folder that exports `command`; to add one, write it and add a line to COMMANDS.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping

import click

from mainstem import __version__
from mainstem.cli.groups import Commands, examples
from mainstem.model.errors import (
    BrokerRefused,
    DataFolderLocked,
    GroupNotFound,
    InvalidRequest,
    MainstemError,
    ResourceNotFound,
    UnknownTopic,
)

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("mainstem.cli.serve", "Run a broker."),
    "demo": ("mainstem.cli.demo", "Run a broker with a screen, and a live stream to look at."),
    "topic": ("mainstem.cli.topic", "List, create, describe, alter and delete topics."),
    "group": ("mainstem.cli.group", "Consumer groups: list, lag, seek, delete."),
    "message": ("mainstem.cli.message", "Look at single messages."),
    "produce": ("mainstem.cli.produce", "Send messages from the command line."),
    "consume": ("mainstem.cli.consume", "Read or follow messages."),
    "queue": ("mainstem.cli.queue", "List, create, look into, empty and delete queues."),
    "exchange": ("mainstem.cli.exchange", "Exchanges of AMQP."),
    "binding": ("mainstem.cli.binding", "What leads from exchanges to queues."),
    "policy": ("mainstem.cli.policy", "Options for queues by a pattern of their names."),
    "namespace": ("mainstem.cli.namespace", "Namespaces of queues: vhosts."),
    "publish": ("mainstem.cli.publish", "Publish to an exchange or a queue."),
    "dlq": ("mainstem.cli.dlq", "Dead letters: list, show, send back."),
    "delay": ("mainstem.cli.delay", "Messages that are published later."),
    "definitions": ("mainstem.cli.definitions", "RabbitMQ's definition files, in and out."),
    "pipeline": ("mainstem.cli.pipeline", "Data pipelines over topics, run by Spark."),
    "sql": ("mainstem.cli.sql", "Query topics with SQL."),
    "acl": ("mainstem.cli.acl", "Who may do what."),
    "user": ("mainstem.cli.user", "Users and their passwords."),
    "bench": ("mainstem.cli.bench", "Measure a broker's speed."),
    "backup": ("mainstem.cli.backup", "Copy a serving broker's data."),
    "restore": ("mainstem.cli.restore", "Make a data folder from a backup."),
    "verify": ("mainstem.cli.verify", "Check every byte of a data folder."),
    "torture": ("mainstem.cli.torture", "Crash a broker over and over and check that nothing is lost."),
    "config": ("mainstem.cli.config", "Show and check settings."),
    "doctor": ("mainstem.cli.doctor", "Check this machine: disk, limits, ports, compiled parts."),
    "version": ("mainstem.cli.version", "Say which version this is."),
}


class WrongRequest(click.ClickException):
    exit_code = 2


# Besides what makes no sense: a name that nobody has, a folder or port that somebody else has. Not a name
# that is taken, or a group that has members: the same request may well be right at another time.
_WRONG = (InvalidRequest, UnknownTopic, GroupNotFound, ResourceNotFound, DataFolderLocked)
# A broker's way of saying so: unknown topic or partition, invalid topic, group, partitions, config or
# request, group not found, resource not found.
_WRONG_CODES = frozenset({3, 17, 24, 37, 40, 42, 69, 91})


def is_wrong_request(error: MainstemError) -> bool:
    return isinstance(error, _WRONG) or (isinstance(error, BrokerRefused) and error.code in _WRONG_CODES)


class LazyCommands(Commands):
    """Knows its commands by name and one line of help, and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in COMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except MainstemError as error:
            if is_wrong_request(error):
                raise WrongRequest(str(error)) from error
            raise click.ClickException(str(error)) from error
        except BrokenPipeError:
            raise  # `mainstem ... | head`: click ends quietly
        except OSError as error:
            why = error.strerror or str(error)  # without the number, which tells people nothing
            raise click.ClickException(f"{error.filename}: {why}" if error.filename else why) from error


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "mainstem serve                      # Kafka on 127.0.0.1:9092, AMQP on 5672",
        "echo hello | mainstem produce greetings; mainstem consume greetings",
        "mainstem queue create tasks; mainstem publish --queue tasks hello; mainstem queue peek tasks",
        "mainstem doctor                     # is this machine fit for it?",
        "mainstem config show --origin       # every setting, and who set it",
    ),
)
@click.version_option(__version__, "-V", "--version", prog_name="mainstem", message="%(prog)s %(version)s")
@click.option("--bootstrap", "-b", metavar="HOST:PORT", help="The broker that commands talk to.")
def cli(bootstrap: str | None) -> None:  # connect.py looks the flag up where it is needed
    """A message broker that the clients you already own can talk to, over one durable log."""


def main() -> None:
    cli.main(args=sys.argv[1:], prog_name="mainstem")
