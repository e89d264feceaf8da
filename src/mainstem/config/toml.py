"""Settings written back as TOML, for `mainstem config show` and the docs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from mainstem.config.load import SETTINGS
from mainstem.config.sections import SECTIONS, Config


def plain(value: object) -> object:
    """A setting's value as JSON and TOML know it."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): str(item) for name, item in value.items()}
    return "" if value is None else str(value)


def literal(value: object) -> str:
    """A setting's value as one would write it in mainstem.toml."""
    simple = plain(value)
    if isinstance(simple, dict):
        inside = ", ".join(f"{json.dumps(name)} = {json.dumps(where)}" for name, where in simple.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(simple, ensure_ascii=False)


def value_of(config: Config, key: str) -> object:
    section, name = key.split(".")
    return getattr(getattr(config, section), name)


def lines(config: Config, *, with_origin: bool) -> Iterator[str]:
    """A mainstem.toml that would give these settings."""
    for section in SECTIONS:
        yield f"[{section}]"
        for key, setting in SETTINGS.items():
            if setting.section == section:
                origin = f"  # {config.origins[key]}" if with_origin else ""
                yield f"{setting.name} = {literal(value_of(config, key))}{origin}"
        yield ""
