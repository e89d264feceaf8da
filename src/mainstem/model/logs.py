"""The log as a port: rooms report events with facts, the program decides how they look.

    log = get_log(__name__)
    log.event("connection closed", peer=peer, why="frame of 2 GiB announced")
    log.warning("disk is full", path=path, free_bytes=free)

A message is a fixed sentence and the facts are keywords, so that both people and machines can search.
Built on the standard library's logging; `observe.logging` formats, and tests use pytest's caplog.
"""

from __future__ import annotations

import logging
import traceback

FACTS = "facts"  # attribute of the LogRecord that carries the keywords


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
            facts["traceback"] = "".join(traceback.format_exception(error))
        self._write(logging.ERROR, message, facts)

    def _write(self, level: int, message: str, facts: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            # %-formatting is off because args stay empty, so a "%" in the message is just text.
            self._logger.log(level, message, extra={FACTS: facts}, stacklevel=3)


def get_log(name: str) -> Log:
    return Log(logging.getLogger(name))
