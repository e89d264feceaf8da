"""Python processes of Spark that run tasks, one after the other."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache

# What the memory allocator keeps for the next task, and the largest piece that it keeps.
KEPT_BYTES = 128 << 20
LARGEST_BYTES = 32 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@cache
def settle() -> None:
    """What is loaded by now stays, nobody has to look at it again; nor does memory go back after each task.

    Between two tasks a worker of Spark looks for garbage among all objects there are, most of which are the
    modules that it imported, Spark's own and Arrow's. That took as long as reading some 10,000 rows does.
    """
    gc.freeze()
    with suppress(OSError, AttributeError):  # another C library than GNU's
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_TRIM_THRESHOLD, KEPT_BYTES)
        set_option(_M_MMAP_THRESHOLD, LARGEST_BYTES)
