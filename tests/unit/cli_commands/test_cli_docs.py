"""docs/operate/cli.md keeps up with the commands."""

import re
from pathlib import Path

import click
import pytest

from mainstem.cli.main import COMMANDS, cli

PAGE = (Path(__file__).parents[3] / "docs" / "operate" / "cli.md").read_text()
CONTEXT = click.Context(cli)


def commands():
    for name in cli.list_commands(CONTEXT):
        command = cli.get_command(CONTEXT, name)
        yield from ((name, verb) for verb in getattr(command, "commands", {}))
        yield (name, "")


@pytest.mark.parametrize(("name", "verb"), list(commands()))
def test_every_command_is_in_the_docs(name, verb):
    lines = [line for line in PAGE.splitlines() if f"mainstem {name}" in line]
    assert lines
    assert not verb or any(re.search(rf"\b{verb}\b", line) for line in lines)


def test_every_command_in_the_docs_exists():
    named = set(re.findall(r"^mainstem (\w+)", PAGE, re.MULTILINE))
    assert named <= set(COMMANDS)


@pytest.mark.parametrize(("name", "verb"), list(commands()))
def test_every_command_says_what_it_does_and_shows_examples(name, verb):
    command = cli.get_command(CONTEXT, name)
    if verb:
        command = command.commands[verb]
    assert command.help
    assert "Examples:" in (command.epilog or "")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name} {verb} {option.name}"
