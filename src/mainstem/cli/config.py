"""`mainstem config`: show every setting with its origin, check a file."""

from __future__ import annotations

from pathlib import Path

import click

from mainstem.cli.groups import Commands, examples
from mainstem.cli.output import emit_record, emit_rows, json_option, remark
from mainstem.cli.settings import settings_options
from mainstem.config import SETTINGS, Config, check_exposure, check_named_files, load, read_file, toml
from mainstem.model.errors import InvalidConfig


@click.group(
    "config", cls=Commands, epilog=examples("mainstem config show --origin", "mainstem config check my.toml")
)
def command() -> None:
    """Show and check settings."""


@command.command(
    epilog=examples(
        "mainstem config show > mainstem.toml",
        "mainstem config show --origin",
        "MAINSTEM_TOPICS__RETENTION_MS=1d mainstem config show --json",
    )
)
@click.option("--origin", is_flag=True, help="Say for each value where it was set.")
@json_option
@settings_options
def show(origin: bool, as_json: bool, config: Config) -> None:
    """Print all settings as a file that would give them."""
    if not as_json:
        for line in toml.lines(config, with_origin=origin):
            click.echo(line)
        return
    rows = [
        {
            "key": key,
            "value": toml.plain(toml.value_of(config, key)),
            "origin": config.origins[key],
            "default": toml.plain(setting.default),
            "variable": setting.env,
            "help": setting.help,
        }
        for key, setting in SETTINGS.items()
    ]
    emit_rows(rows, [], as_json=True)


@command.command(epilog=examples("mainstem config check /etc/mainstem/mainstem.toml"))
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Check a settings FILE and the files it names; nothing is started. Exit code 2 if it is wrong."""
    try:
        config = load({}, {}, read_file(file))
        check_exposure(config)
        check_named_files(config)
    except InvalidConfig as error:
        if as_json:
            emit_record({"file": str(file), "errors": str(error).splitlines()}, as_json=True)
        raise
    count = sum(origin != "default" for origin in config.origins.values())
    if as_json:
        emit_record({"file": str(file), "settings": count, "errors": []}, as_json=True)
    else:
        remark(f"{file}: fine, {count} settings" if count != 1 else f"{file}: fine, 1 setting")
