"""Kinds of setting: each turns what a person wrote into a value, or says what is allowed.

A kind gets the raw value of a TOML file (already typed), or the text of a variable or flag. Whatever it
cannot take it refuses with ValueError; the loader adds which key it was and where it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

INT64_MAX = 2**63 - 1
UNLIMITED = -1
MAX_PORT = 65535

_BYTE_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BYTE_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_MS_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AMOUNT = re.compile(r"(\d+)\s*([a-z]*)")


@dataclass(frozen=True)
class Kind(Generic[T]):
    parse: Callable[[object], T]
    allowed: str  # completes "must be ..."


@dataclass(frozen=True)
class Endpoint:
    """Where to listen or what to tell clients: a host and a port (0: any free one)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def integer(low: int, high: int = INT64_MAX) -> Kind[int]:
    return _bounded(low, high, {"": 1}, f"a whole number {_range(low, high)}")


def size_bytes(low: int, high: int = INT64_MAX, *, unlimited: bool = False) -> Kind[int]:
    allowed = f'bytes or a size like "64 MiB", {_range(low, high)}' + _or_unlimited(unlimited)
    return _bounded(low, high, _BYTE_UNITS, allowed, unlimited)


def duration_ms(low: int, high: int = INT64_MAX, *, unlimited: bool = False) -> Kind[int]:
    allowed = f'milliseconds or a time like "10m" or "7d", {_range(low, high)}' + _or_unlimited(unlimited)
    return _bounded(low, high, _MS_UNITS, allowed, unlimited)


def choice(*names: str) -> Kind[str]:
    allowed = f"one of {', '.join(names)}"

    def parse(raw: object) -> str:
        if raw not in names:
            raise ValueError(f"must be {allowed}")
        return str(raw)

    return Kind(parse, allowed)


def choices(*names: str) -> Kind[tuple[str, ...]]:
    one = choice(*names)
    return _list_of(one.parse, f"a list of {', '.join(names)}")


def _parse_boolean(raw: object) -> bool:
    word = raw.strip().lower() if isinstance(raw, str) else raw
    if word in (True, "true", "yes", "on", "1"):
        return True
    if word in (False, "false", "no", "off", "0"):
        return False
    raise ValueError("must be true or false")


def _parse_text(raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError("must be text")
    return raw


def _parse_path(raw: object) -> Path:
    if isinstance(raw, Path):
        return raw
    if not isinstance(raw, str) or not raw:
        raise ValueError("must be a path")
    return Path(raw).expanduser()


def _parse_optional_path(raw: object) -> Path | None:
    return None if raw in ("", None) else _parse_path(raw)


def parse_endpoint(raw: object) -> Endpoint:
    """`127.0.0.1:9092`, `[::1]:9092`, `broker.example:9092`."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:\s]+)):(\d+)", str(raw).strip())
    if found is None:
        raise ValueError(f"{str(raw)!r} must be HOST:PORT")
    if int(found[3]) > MAX_PORT:
        raise ValueError(f"there is no port {found[3]}: it must be 0 to {MAX_PORT}")
    return Endpoint(found[1] or found[2], int(found[3]))


def _parse_endpoints(raw: object) -> Mapping[str, Endpoint]:
    if isinstance(raw, str):
        raw = [part for part in raw.split(",") if part.strip()]
    if isinstance(raw, list | tuple):
        pairs = [str(part).partition("=") for part in raw]
        for name, equals, _ in pairs:
            if not equals:
                example = name.strip() if ":" in name else "127.0.0.1:9092"
                raise ValueError(f"{name!r} must be PROTOCOL=HOST:PORT, for example kafka={example}")
        raw = {name.strip(): where for name, _, where in pairs}
    if not isinstance(raw, Mapping):
        raise ValueError("must be PROTOCOL=HOST:PORT pairs")
    return {str(name): parse_endpoint(where) for name, where in raw.items()}


BOOLEAN = Kind(_parse_boolean, "true or false")
TEXT = Kind(_parse_text, "text")
PATH = Kind(_parse_path, "a path")
OPTIONAL_PATH = Kind(_parse_optional_path, "a path, or empty")
ENDPOINTS = Kind(_parse_endpoints, "PROTOCOL=HOST:PORT pairs")


def _list_of(one: Callable[[object], str], allowed: str) -> Kind[tuple[str, ...]]:
    def parse(raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = [part.strip() for part in raw.split(",") if part.strip()]
        if not isinstance(raw, list | tuple):
            raise ValueError(f"must be {allowed}")
        return tuple(dict.fromkeys(one(item) for item in raw))

    return Kind(parse, allowed)


TEXTS = _list_of(_parse_text, "a list of names")


def _bounded(
    low: int, high: int, units: Mapping[str, int], allowed: str, unlimited: bool = False
) -> Kind[int]:
    def parse(raw: object) -> int:
        number = _amount(raw, units)
        if number is None or not (low <= number <= high or (unlimited and number == UNLIMITED)):
            raise ValueError(f"must be {allowed}")
        return number

    return Kind(parse, allowed)


def _amount(raw: object, units: Mapping[str, int]) -> int | None:
    if isinstance(raw, bool):  # a bool is an int in Python, and never one in a setting
        return None
    if isinstance(raw, int):
        return raw
    text = str(raw).strip().lower().replace("_", "")
    if re.fullmatch(r"-\d+", text):
        return int(text)
    found = _AMOUNT.fullmatch(text)
    return int(found[1]) * units[found[2]] if found and found[2] in units else None


def _range(low: int, high: int) -> str:
    return f"{low} or more" if high == INT64_MAX else f"{low} to {high}"


def _or_unlimited(unlimited: bool) -> str:
    return f", or {UNLIMITED} for no limit" if unlimited else ""
