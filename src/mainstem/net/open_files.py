"""How many files a process may have open: a connection takes one, a file of the log with its index two."""

from __future__ import annotations

import contextlib
import resource

SPARE_FILES = 512  # beside those of connections


def allow_open_files() -> None:
    """As many as the system lets us."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # not for us to choose
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_that_fit(wanted: int) -> int:
    """So that however many come, the log can still open its files."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, max(soft - SPARE_FILES, soft // 2))
