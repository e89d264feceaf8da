"""From flags, variables and a file to one `Config`: flag over variable over file over default.

Everything wrong is reported at once, each line with the key, the value, where it was written and what
is allowed. Nothing here touches the disk except `read_file` and `find_file`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from mainstem.config.kinds import Endpoint, Kind
from mainstem.config.sections import LISTENERS, PLANNED, SECTIONS, Config
from mainstem.model.errors import InvalidConfig

ENV_PREFIX = "MAINSTEM_"
ENV_FILE = "MAINSTEM_CONFIG"  # names the file; every setting's own variable has a double underscore
USUAL_FILE = "mainstem.toml"
DEFAULT_ORIGIN = "default"


@dataclass(frozen=True)
class Setting:
    """One setting as the rest of the program sees it."""

    section: str
    name: str
    kind: Kind[Any]
    help: str
    flag: str | None
    default: Any

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def env(self) -> str:
        return f"{ENV_PREFIX}{self.section}__{self.name}".upper()

    @property
    def planned(self) -> bool:
        """Known by name only: nothing reads it yet, so it cannot be set."""
        return self.key in PLANNED


@dataclass(frozen=True)
class ConfigFile:
    name: str
    text: str


@dataclass(frozen=True)
class _Given:
    """A value as someone wrote it, before it is checked."""

    value: object
    origin: str


def _setting(section: str, spec: Field[Any], defaults: object) -> Setting:
    meta = spec.metadata
    return Setting(section, spec.name, meta["kind"], meta["help"], meta["flag"], getattr(defaults, spec.name))


SETTINGS: Mapping[str, Setting] = {
    made.key: made
    for section, cls in SECTIONS.items()
    for made in (_setting(section, spec, cls()) for spec in fields(cls))
}
_BY_ENV = {made.env: made for made in SETTINGS.values()}


def load(
    flags: Mapping[str, object],
    env: Mapping[str, str],
    file: ConfigFile | None = None,
    *,
    flags_are: str | None = None,
) -> Config:
    """`flags` maps `section.key` to a value; None means that the flag was not given.

    `flags_are` names where they were written, if that was no command line.
    """
    wrong: list[str] = []
    given: dict[str, _Given] = {}
    given.update(_from_file(file, wrong) if file else ())
    given.update(_from_env(env, wrong))
    given.update(_from_flags(flags, wrong, flags_are))

    values: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    origins = dict.fromkeys(SETTINGS, DEFAULT_ORIGIN)
    for key, one in given.items():
        setting = SETTINGS[key]
        try:
            value = values[setting.section][setting.name] = setting.kind.parse(one.value)
        except ValueError as error:
            wrong.append(f"{one.origin}: {key} = {_shown(one.value)}: {error}")
        else:
            if setting.planned and value != setting.default:
                wrong.append(f"{one.origin}: {key} is planned and not yet in effect, it cannot be set")
        origins[key] = one.origin
    if wrong:
        raise InvalidConfig("\n".join(wrong))
    sections = {section: cls(**values[section]) for section, cls in SECTIONS.items()}
    config = Config(**sections, origins=origins)
    _check_together(config)
    return config


def read_file(path: Path) -> ConfigFile:
    try:
        return ConfigFile(str(path), path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{path}: is not UTF-8 text") from error


def find_file(chosen: Path | None, env: Mapping[str, str], folder: Path) -> ConfigFile | None:
    """The file that was asked for (which must exist), or `mainstem.toml` in `folder` if it is there."""
    if chosen is None and env.get(ENV_FILE):
        chosen = Path(env[ENV_FILE])
    if chosen is not None:
        return read_file(chosen)
    usual = folder / USUAL_FILE
    return read_file(usual) if usual.is_file() else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing if nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _from_file(file: ConfigFile, wrong: list[str]) -> Iterator[tuple[str, _Given]]:
    try:
        tables = tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        wrong.append(f"{file.name}: is not valid TOML: {error}")
        return
    for section, table in tables.items():
        if section not in SECTIONS:
            wrong.append(f"{file.name}: unknown section [{section}]{suggestion(section, SECTIONS)}")
        elif not isinstance(table, dict):
            wrong.append(f"{file.name}: {section} must be a section, [{section}]")
        else:
            for name, value in table.items():
                key = f"{section}.{name}"
                if key in SETTINGS:
                    yield key, _Given(value, f"file {file.name}")
                else:
                    wrong.append(f"{file.name}: unknown key {key}{suggestion(key, SETTINGS)}")


def _from_env(env: Mapping[str, str], wrong: list[str]) -> Iterator[tuple[str, _Given]]:
    for name in sorted(env):
        if name in _BY_ENV:
            yield _BY_ENV[name].key, _Given(env[name], f"variable {name}")
        elif name.startswith(ENV_PREFIX) and "__" in name:
            wrong.append(f"environment: unknown variable {name}{suggestion(name, _BY_ENV)}")


def _from_flags(
    flags: Mapping[str, object], wrong: list[str], origin: str | None
) -> Iterator[tuple[str, _Given]]:
    for key, value in flags.items():
        if key not in SETTINGS:
            wrong.append(f"{origin or 'command line'}: unknown key {key}{suggestion(key, SETTINGS)}")
        elif value is not None:
            yield key, _Given(value, origin or f"flag {SETTINGS[key].flag or f'--set {key}'}")


def _check_together(config: Config) -> None:
    """What no single setting can tell."""
    groups, security = config.groups, config.security
    wrong = []
    if groups.min_session_timeout_ms > groups.max_session_timeout_ms:
        wrong.append("groups.min_session_timeout_ms is above groups.max_session_timeout_ms")
    if groups.consumer_heartbeat_interval_ms >= groups.consumer_session_timeout_ms:
        wrong.append("groups.consumer_heartbeat_interval_ms must be below groups.consumer_session_timeout_ms")
    if not config.topics.cleanup_policy:
        wrong.append("topics.cleanup_policy must name delete, compact or both")
    if config.topics.default_partitions > config.topics.max_partitions:
        wrong.append("topics.default_partitions is above topics.max_partitions")
    if (security.tls_cert_file is None) != (security.tls_key_file is None):
        wrong.append("security.tls_cert_file and security.tls_key_file go together")
    if security.tls_client_auth != "none" and security.tls_ca_file is None:
        wrong.append("security.tls_client_auth needs security.tls_ca_file")
    for name in config.server.listen:
        if name not in LISTENERS:
            meant = suggestion(name, LISTENERS)
            wrong.append(f"server.listen: there is no protocol {name!r}{meant}: use {', '.join(LISTENERS)}")
    tls_listeners = [name for name in config.server.listen if name.endswith("+tls")]
    if tls_listeners and security.tls_cert_file is None:
        wrong.append(
            f"server.listen {tls_listeners[0]} needs security.tls_cert_file and security.tls_key_file"
        )
    asked: dict[Endpoint, str] = {}
    for name, where in config.server.listen.items():
        other = asked.setdefault(where, name)
        if other != name and where.port:
            wrong.append(f"server.listen: {other} and {name} cannot both have {where}")
    unheard = sorted(set(config.server.advertise) - set(config.listeners()))
    if unheard:
        wrong.append(f"server.advertise {unheard[0]} has no listener of that name in server.listen")
    if wrong:
        raise InvalidConfig("\n".join(wrong))


def _shown(value: object) -> str:
    """As somebody has written it: a flag that may come several times is a tuple here."""
    return repr(", ".join(map(str, value))) if isinstance(value, tuple) else repr(value)
