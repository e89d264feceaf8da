from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mainstem import __version__
from mainstem.cli import main as main_module
from mainstem.cli.acl import WORDS
from mainstem.cli.main import COMMANDS, cli
from mainstem.model.errors import (
    BrokerRefused,
    CorruptFile,
    DataFolderLocked,
    GroupNotFound,
    InvalidTopicName,
    UnknownTopic,
)


def every_command() -> Iterator[tuple[str, click.Command]]:
    """All commands that exist, with sub-commands, as (words, command)."""

    def below(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield words, command
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            for name in command.list_commands(ctx):
                child = command.get_command(ctx, name)
                assert child is not None
                if not child.hidden:
                    yield from below(f"{words} {name}", child)

    return below("mainstem", cli)


ALL = list(every_command())


@pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])
def test_every_command_explains_itself_with_an_example(words, command):
    result = CliRunner().invoke(cli, [*words.split()[1:], "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.output
    assert f"  {words}" in result.output


@pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])
def test_every_option_says_what_it_does(words, command):
    options = [p for p in command.params if isinstance(p, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_only_commands_that_exist_are_listed(monkeypatch):
    monkeypatch.setattr(
        main_module, "COMMANDS", {**COMMANDS, "planned": ("mainstem.cli.no_such_module", "Later.")}
    )
    result = CliRunner().invoke(cli, ["--help"])
    assert "config" in result.output
    assert "planned" not in result.output
    assert CliRunner().invoke(cli, ["planned"]).exit_code == 2


def test_help_loads_neither_settings_nor_rich():
    code = (
        "import sys; from mainstem.cli.main import cli\n"
        "try: cli.main(['--help'], prog_name='mainstem')\n"
        "except SystemExit: pass\n"
        "print([m for m in ('rich', 'mainstem.config', 'asyncio', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["confg"], "Did you mean config?"),
        (["config", "shwo"], "Did you mean show?"),
        (["demo", "--for", "0"], "0 must be a number above 0"),
        (["serve", "--listen", "127.0.0.1:19092"], "for example kafka=127.0.0.1:19092"),
        (["serve", "--listen", "kafka=127.0.0.1:70000"], "there is no port 70000"),
        (["serve", "--listen", "kafka=[::1]:1", "--listen", "http=[::1]:1"], "cannot both have [::1]:1"),
        (["zzz"], "There are: "),
        (["torture", "--for", "banana"], "must be seconds above 0, or a time like"),
        (["acl", "add", "alice", "raed", "--topic", "x"], "Did you mean read?"),
        (["config", "show", "--origni"], "--origin"),
        (["config", "show", "--set", "server.node_id"], "must be SECTION.KEY=VALUE"),
        (["config", "show", "--set", "server.nod_id=1"], "did you mean server.node_id?"),
    ],
)
def test_a_slip_is_told_with_the_nearest_right_word_and_exit_code_2(words, said):
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidTopicName("a/b"), 2),
        (UnknownTopic("there is no topic 'a'"), 2),
        (GroupNotFound("there is no group 'a'"), 2),
        (DataFolderLocked("d is in use by process 1"), 2),
        (BrokerRefused(40, "INVALID_CONFIG", "a"), 2),
        (BrokerRefused(24, "INVALID_GROUP_ID", "a"), 2),
        (BrokerRefused(36, "TOPIC_ALREADY_EXISTS", "a"), 1),
        (CorruptFile("j/1", 5, "bad crc"), 1),
        (ConnectionRefusedError(111, "refused"), 1),
    ],
)
def test_errors_become_one_line_and_an_exit_code(monkeypatch, error, code):
    def fail(*_: object) -> click.Command:
        @click.command()
        def failing() -> None:
            raise error

        return failing

    monkeypatch.setattr(main_module.LazyCommands, "get_command", fail)
    result = CliRunner().invoke(cli, ["version"])
    assert result.exit_code == code
    assert result.output == f"Error: {getattr(error, 'strerror', None) or error}\n"


def test_version_is_told_both_ways():
    assert CliRunner().invoke(cli, ["--version"]).output == f"mainstem {__version__}\n"
    result = CliRunner().invoke(cli, ["version", "--json"])
    assert json.loads(result.output)["mainstem"] == __version__


@pytest.mark.parametrize("words", [["topic", "rm"], ["group", "rm"], ["user", "delete"], ["acl", "delete"]])
def test_rm_and_delete_are_one_command(words):
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0
    assert "elete" in result.output or "orget" in result.output or "emove" in result.output


def test_a_refusal_names_what_was_asked_for_once():
    assert str(BrokerRefused(36, "TOPIC_ALREADY_EXISTS", "a", "Topic 'a' already exists.")).count("'a'") == 1
    assert (
        str(BrokerRefused(36, "X", "topic 'a'", "Topic 'a' already exists.")) == "Topic 'a' already exists."
    )
    assert str(BrokerRefused(36, "TOPIC_ALREADY_EXISTS", "a")) == "a: topic already exists"


def test_help_names_every_operation():
    told = "".join(CliRunner().invoke(cli, ["acl", "add", "--help"]).output.split())  # lines end anywhere
    assert [word for word in WORDS if word not in told] == []
