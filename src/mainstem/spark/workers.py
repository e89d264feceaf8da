"""Python processes of Spark that run tasks, one after the other."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from functools import cache

# What a task of ours holds at a time, about: at the end of the heap it stays for the next task. Pieces up to
# the second size lie on the heap.
KEPT_BYTES = 64 << 20
LARGEST_BYTES = 16 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@cache
def settle() -> None:
    """What is loaded by now stays, nobody has to look at it again; nor does memory go back after each task.

    Between two tasks a worker of Spark looks for garbage among all objects there are, most of which are the
    modules that it imported, Spark's own and Arrow's. That took as long as reading some 10,000 rows does.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # another C library than GNU's
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_TRIM_THRESHOLD, KEPT_BYTES)
        set_option(_M_MMAP_THRESHOLD, LARGEST_BYTES)
