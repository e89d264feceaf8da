"""Secrets from files: the first users with their passwords, and the http listener's token."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from mainstem.model.errors import InvalidConfig


def read_users(path: Path) -> Mapping[str, str]:
    """The table `[users]`: password by name."""
    try:
        tables = tomllib.loads(_read("security.users_file", path))
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"security.users_file {path} is not valid TOML: {error}") from None
    users = tables.pop("users", None)
    if tables or not isinstance(users, dict):
        raise InvalidConfig(f"security.users_file {path} must hold one table, [users]")
    for name, password in users.items():
        if not isinstance(password, str) or not password or not name:
            raise InvalidConfig(f'security.users_file {path}: user {name!r} must be name = "password"')
    return users


def read_token(path: Path) -> str:
    token = _read("security.http_token_file", path).strip()
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidConfig(f"security.http_token_file {path} must hold one line of ASCII text, the token")
    return token


def others_can_read(path: Path) -> bool:
    """Whether somebody else on this machine may read a file that is meant to be secret."""
    return path.stat().st_mode & 0o044 != 0


def _read(setting: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidConfig(f"{setting} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidConfig(f"{setting} {path} is not UTF-8 text") from None
