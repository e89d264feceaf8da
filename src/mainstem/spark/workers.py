"""Python processes of Spark that run tasks, one after the other."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """What is loaded by now stays: nobody has to look at it again.

    Between two tasks a worker of Spark looks for garbage among all objects there are, most of which are the
    modules that it imported, Spark's own and Arrow's. That took as long as reading some 10,000 rows does.
    """
    gc.freeze()
