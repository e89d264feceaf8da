"""How the log looks: lines for people, or one JSON object per line for machines."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import TextIO

from mainstem.model.logs import FACTS

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_PLAIN = re.compile(r"[\w./:@+\-\[\]]+", re.ASCII)
_RESERVED = ("time", "level", "log", "message")


class PeopleFormatter(logging.Formatter):
    """`2031-05-04 12:00:01.250 warning connection closed peer=127.0.0.1:5000 why="bad frame"`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        trace = facts.pop("traceback", None)
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        words = [when, record.levelname.lower().ljust(7), _one_line(record.getMessage())]
        words += [f"{name}={_quoted(value)}" for name, value in facts.items()]
        line = " ".join(words)
        return (
            line
            if trace is None
            else line + "\n" + "\n".join(f"    {row}" for row in str(trace).splitlines())
        )


class JsonFormatter(logging.Formatter):
    """`{"time": "...Z", "level": "...", "log": "mainstem.room", "message": "...", facts...}`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "log": record.name,
            "message": record.getMessage(),
        }
        for name, value in _facts(record).items():
            entry[f"{name}_" if name in _RESERVED else name] = value
        return json.dumps(entry, default=str, ensure_ascii=False)


def start_logging(level: str, format_name: str, stream: TextIO) -> None:
    """Send everything that Mainstem reports to `stream`. For the program, not for embedding."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if format_name == "json" else PeopleFormatter())
    logger = logging.getLogger("mainstem")
    for old in list(logger.handlers):
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(LEVELS[level])
    logger.propagate = False
    # asyncio reports what nobody else caught; it must not get lost nor look different.
    foreign = logging.getLogger("asyncio")
    foreign.handlers = [handler]
    foreign.propagate = False


def _facts(record: logging.LogRecord) -> dict[str, object]:
    facts = dict(getattr(record, FACTS, {}))
    if record.exc_info:
        facts["traceback"] = logging.Formatter().formatException(record.exc_info)
    return facts


def _quoted(value: object) -> str:
    """Quoted unless it is one plain word: what a peer sent cannot fake a line or a fact."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=True)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
