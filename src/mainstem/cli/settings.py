"""The flags that every command with settings has, made from the settings themselves."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from mainstem.config import SETTINGS, Setting, find_file, load
from mainstem.config.kinds import ENDPOINTS, OPTIONAL_PATH, PATH, Kind

_FLAGGED = {setting.key.replace(".", "__"): setting for setting in SETTINGS.values() if setting.flag}


def settings_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--config`, `--set` and the flags of sections.py; the command gets one `config: Config`."""

    @functools.wraps(function)
    def with_config(*args: Any, config_file: Path | None, assignments: tuple[str, ...], **kwargs: Any) -> Any:
        flags: dict[str, object] = dict(map(_assignment, assignments))
        for name, setting in _FLAGGED.items():
            value = kwargs.pop(name)
            if value not in (None, ()):
                flags[setting.key] = value
        config = load(flags, os.environ, find_file(config_file, os.environ, Path.cwd()))
        return function(*args, config=config, **kwargs)

    return _decorate(with_config, [*map(_option, _FLAGGED.items()), _CONFIG, _SET])


def _option(item: tuple[str, Setting]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    name, setting = item
    many = setting.kind is ENDPOINTS
    metavar = "PROTOCOL=HOST:PORT" if many else _metavar(setting.kind)
    text = f"{setting.help}{' Not yet in effect.' if setting.planned else ''} [{setting.key}]"
    return click.option(str(setting.flag), name, multiple=many, metavar=metavar, help=text)


def _metavar(kind: Kind[Any]) -> str:
    """What may be written there, in a word or as the choices that there are."""
    if kind in (PATH, OPTIONAL_PATH):
        return "PATH"
    start, choices = "one of ", kind.allowed
    return choices.removeprefix(start).replace(", ", "|") if choices.startswith(start) else "VALUE"


_CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file. Default: $MAINSTEM_CONFIG, or mainstem.toml if there is one here.",
)
_SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Any setting; see `mainstem config show`.",
)


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: must be SECTION.KEY=VALUE")
    return key.strip(), value


def _decorate(function: Callable[..., Any], options: Iterable[Callable[..., Any]]) -> Callable[..., Any]:
    for option in reversed(list(options)):
        function = option(function)
    return function
