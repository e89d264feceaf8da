"""PySpark's daemon, which waits for its workers here: else the CPU seconds of those that end are lost.

It ignores the end of its children, and what they took is then added to nobody. Spark starts this in its place
(`spark.python.daemon.module`); nothing else is different.
"""

import os
import signal
from contextlib import suppress
from types import FrameType
from typing import Any

from pyspark.daemon import manager

set_handler = signal.signal


def wait_for_ended(_number: int, _frame: FrameType | None) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def set_other(number: int, handler: Any) -> Any:
    ignores_children = number == signal.SIGCHLD and handler == signal.SIG_IGN
    return set_handler(number, wait_for_ended if ignores_children else handler)


if __name__ == "__main__":
    signal.signal = set_other  # type: ignore[assignment]
    manager()
