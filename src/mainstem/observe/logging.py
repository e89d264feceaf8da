"""How the log looks: lines for people, or one JSON object per line for machines."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from mainstem.model.logs import FACTS, TRACEBACK, Told

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_RESERVED = ("time", "level", "log", "message")


class PeopleFormatter(logging.Formatter):
    """`2031-05-04 12:00:01.250 warning connection closed peer=127.0.0.1:5000 why="bad frame"`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).isoformat(" ", "milliseconds")
        return f"{when} {record.levelname.lower():7} {Told(_sentence(record), _facts(record))}"


class JsonFormatter(logging.Formatter):
    """`{"time": "...Z", "level": "...", "log": "mainstem.room", "message": "...", facts...}`."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "log": record.name,
            "message": _sentence(record),
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


def _sentence(record: logging.LogRecord) -> str:
    return record.msg.sentence if isinstance(record.msg, Told) else record.getMessage()


def _facts(record: logging.LogRecord) -> dict[str, object]:
    facts = dict(getattr(record, FACTS, {}))
    if record.exc_info:
        facts[TRACEBACK] = logging.Formatter().formatException(record.exc_info)
    return facts
