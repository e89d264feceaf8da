"""Whether a stretch of a file is in memory: asked of the kernel, without reading any of it.

cachestat(2) is in Linux since 6.5. It takes about a microsecond for a megabyte.
"""

from __future__ import annotations

import ctypes

from mainstem.model.ports import BLOCK_BYTES

_CACHESTAT = 451  # on every processor that Python runs on today
# Position and size of the range, then what was found in it, in pages: in memory, dirty, being written,
# evicted, recently evicted.
_Question = ctypes.c_uint64 * 7
_FOUND_AT = 2
# The call is too short to let another thread have the GIL for it.
_syscall = ctypes.PyDLL(None).syscall


def is_resident(fd: int, position: int, size: int) -> bool | None:
    """All of it; None if the kernel does not say."""
    question = _Question(position, size)
    found = ctypes.byref(question, _FOUND_AT * 8)
    if _syscall(_CACHESTAT, fd, question, found, 0) != 0:
        return None
    pages = (position + size - 1) // BLOCK_BYTES - position // BLOCK_BYTES + 1
    return bool(question[_FOUND_AT] >= pages)
