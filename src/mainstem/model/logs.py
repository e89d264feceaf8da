"""The log as a port: rooms report events with facts, the program decides how they look.

    log = get_log(__name__)
    log.event("connection closed", peer=peer, why="frame of 2 GiB announced")
    log.warning("disk is full", path=path, free_bytes=free)

A message is a fixed sentence and the facts are keywords, so that both people and machines can search.
Built on the standard library's logging; `observe.logging` formats, and tests use pytest's caplog. Where the
program is somebody else's, such as a notebook or a worker of Spark, its handlers know no facts: they show the
message, which is why that has them too when it is made a text (`Told`).
"""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass

FACTS = "facts"  # attribute of the LogRecord that carries the keywords
TRACEBACK = "traceback"  # the fact that has lines of its own
_PLAIN = re.compile(r"[\w./:@+\-\[\]]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Told:
    """The `msg` of our LogRecords. As a text: `connection closed peer=127.0.0.1:5000 why="bad frame"`."""

    sentence: str
    facts: Mapping[str, object]

    def __str__(self) -> str:
        words = [_one_line(self.sentence)]
        words += [f"{name}={_quoted(value)}" for name, value in self.facts.items() if name != TRACEBACK]
        trace = str(self.facts.get(TRACEBACK, ""))
        return "\n".join([" ".join(words), *(f"    {row}" for row in trace.splitlines())])


def _quoted(value: object) -> str:
    """Quoted unless it is one plain word: what a peer sent cannot fake a line or a fact."""
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=True)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)


class Log:
    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, **facts: object) -> None:
        self._write(logging.DEBUG, message, facts)

    def event(self, message: str, /, **facts: object) -> None:
        """Something normal that an operator may want to know."""
        self._write(logging.INFO, message, facts)

    def warning(self, message: str, /, **facts: object) -> None:
        """Something is wrong and the broker goes on without help."""
        self._write(logging.WARNING, message, facts)

    def error(self, message: str, /, *, error: BaseException | None = None, **facts: object) -> None:
        """Something is wrong and somebody must look. `error` adds its traceback."""
        if error is not None:
            facts["error"] = f"{type(error).__name__}: {error}"
            facts[TRACEBACK] = "".join(traceback.format_exception(error))
        self._write(logging.ERROR, message, facts)

    def _write(self, level: int, message: str, facts: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            # %-formatting is off because args stay empty, so a "%" in the message is just text.
            self._logger.log(level, Told(message, facts), extra={FACTS: facts}, stacklevel=3)


class Seldom:
    """Warnings that come again and again while something lasts: each a line a minute, not one a second."""

    EVERY_S = 60.0

    def __init__(self, log: Log, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._told: dict[tuple[str, str], tuple[float, int]] = {}  # when, and how many were left out since

    def warning(self, message: str, /, about: str = "", **facts: object) -> None:
        """`about` tells apart what has minutes of its own; there must not be many of it."""
        now_s = self._now_s()
        told_s, left_out = self._told.get((message, about), (float("-inf"), 0))
        if now_s - told_s < self.EVERY_S:
            self._told[message, about] = told_s, left_out + 1
            return
        self._told[message, about] = now_s, 0
        if left_out:
            facts["left_out"] = left_out
        self._log.warning(message, **facts)


def get_log(name: str) -> Log:
    return Log(logging.getLogger(name))
