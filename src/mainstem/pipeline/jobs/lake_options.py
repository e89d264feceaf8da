"""Options of jobs as values: times, sizes, lists, topics. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from mainstem.model.errors import InvalidRequest

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?")
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_SIZE = re.compile(r"(\d+)\s*([a-z]*)")
ISOLATIONS = ("read_committed", "read_uncommitted")
ISOLATION_HELP = f"whether open and aborted transactions are left out: {', '.join(ISOLATIONS)}"


def names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def one_of(name: str, text: str, known: Iterable[str]) -> str:
    word, words = text.strip().lower(), list(known)
    if word not in words:
        near = get_close_matches(word, words, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidRequest(f"{name} is one of {', '.join(words)}, not {text!r}{hint}")
    return word


def flag(name: str, text: str) -> bool:
    return one_of(name, text, ("true", "false")) == "true"


def isolation(options: Mapping[str, str]) -> str:
    return one_of("isolation", options["isolation"], ISOLATIONS)


def whole(name: str, text: str, low: int = 0) -> int:
    if not text.strip().isdecimal() or int(text) < low:
        raise InvalidRequest(f"{name} is a whole number from {low} on, not {text!r}")
    return int(text)


def seconds(name: str, text: str) -> float:
    found = _TIME.fullmatch(text.strip().lower())
    if not found or found[2] not in _SECONDS:
        raise InvalidRequest(f"{name} is a time as in '90 seconds' or '1 hour', not {text!r}")
    return float(found[1]) * _SECONDS[found[2]]


def size_bytes(name: str, text: str) -> int:
    found = _SIZE.fullmatch(text.strip().lower())
    if not found or found[2] not in _BYTES or int(found[1]) == 0:
        raise InvalidRequest(f"{name} is a size as in '128 MiB', not {text!r}")
    return int(found[1]) * _BYTES[found[2]]


def subscription(options: Mapping[str, str]) -> dict[str, str]:
    """The topics that a job reads, as the source's option."""
    topics, pattern = names(options.get("topic", "")), options.get("pattern", "").strip()
    if bool(topics) == bool(pattern):
        both = "both are given" if topics else "none is given"
        raise InvalidRequest(
            f"give topic = 'orders' (or several, with commas) or pattern = 'orders-.*'; {both}"
        )
    return {"subscribe": ",".join(topics)} if topics else {"subscribePattern": pattern}


def local_folder(name: str, text: str) -> str:
    """A path that this machine can rename in."""
    path = text.strip().removeprefix("file://").removeprefix("file:")
    if not path:
        raise InvalidRequest(f"{name} is empty")
    if re.match(r"[a-z][a-z0-9+.-]+:", path, re.IGNORECASE):
        raise InvalidRequest(f"{name} is a folder that driver and executors all see, not {text!r}")
    return path
