"""What the operating system knows about this process, under Prometheus' usual names."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable
from pathlib import Path

from mainstem.model.meters import Meters

_PROC = Path("/proc/self")


def add_process_meters(meters: Meters, version: str, started_at_s: float) -> Callable[[], None]:
    """Add the meters; call what comes back before each rendering to bring them up to date."""
    cpu = meters.counter("process_cpu_seconds", "CPU time used, user and system").at()
    collections = meters.counter("python_gc_collections", "Garbage collections", "generation")
    meters.gauge("process_resident_memory_bytes", "Memory in use").at().read = _resident_bytes
    meters.gauge("process_open_fds", "Open file descriptors").at().read = _open_files
    meters.gauge("process_max_fds", "Most file descriptors that may be open").at().read = _max_files
    meters.gauge("process_start_time_seconds", "Start, seconds since 1970").at().value = started_at_s
    meters.gauge("mainstem_build_info", "Always 1; the version is a label", "version").at(version).value = 1

    def refresh() -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu.value = usage.ru_utime + usage.ru_stime
        for generation, stats in enumerate(gc.get_stats()):
            collections.at(str(generation)).value = stats["collections"]

    return refresh


def _resident_bytes() -> int:
    try:
        pages = int((_PROC / "statm").read_text().split()[1])
    except OSError:  # no /proc here: the peak is the best there is
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int:
    try:
        return len(os.listdir(_PROC / "fd"))
    except OSError:
        return -1


def _max_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
