"""Whether a stretch of a file is in memory: asked of the kernel, without reading any of it.

cachestat(2) is in Linux since 6.5. It takes about a microsecond for a megabyte.
"""

from __future__ import annotations

import ctypes

from mainstem.model.ports import BLOCK_BYTES

_CACHESTAT = 451  # on every processor that Python runs on today


class _Range(ctypes.Structure):
    _fields_ = [("position", ctypes.c_uint64), ("size", ctypes.c_uint64)]


class _Found(ctypes.Structure):
    """In pages, of the range."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "being_written", "evicted", "recently_evicted")
    ]


# The call is too short to let another thread have the GIL for it.
_syscall = ctypes.PyDLL(None).syscall


def is_resident(fd: int, position: int, size: int) -> bool | None:
    """All of it; None if the kernel does not say."""
    asked, found = _Range(position, size), _Found()
    if _syscall(_CACHESTAT, fd, ctypes.byref(asked), ctypes.byref(found), 0) != 0:
        return None
    pages = (position + size - 1) // BLOCK_BYTES - position // BLOCK_BYTES + 1
    return int(found.cached) >= pages
