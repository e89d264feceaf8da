"""What a broker costs: CPU seconds and resident memory of a process and its children, from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_S = 0.1


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        found.append(one)
        with suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                queue += [
                    int(child) for child in Path(f"/proc/{one}/task/{task}/children").read_text().split()
                ]
    return found


def cpu_s(pid: int) -> float:
    """User and system time so far of the tree, with children that have ended and been waited for."""
    ticks = 0
    for one in tree(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS_PER_S


def moved_bytes(pid: int) -> int:
    """What the tree has read and written so far by system calls on files and pipes."""
    total = 0
    for one in tree(pid):
        with suppress(OSError):
            lines = Path(f"/proc/{one}/io").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith(("rchar:", "wchar:")))
    return total


def is_held(pid: int) -> bool:
    """Whether any process of the tree is stopped (SIGSTOP), and so would go on with something later."""
    for one in tree(pid):
        with suppress(OSError):
            if Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                return True
    return False


def rss_bytes(pid: int) -> int:
    """Resident memory of the tree. Pages that parent and child share count twice: an upper bound."""
    return sum(map(own_rss_bytes, tree(pid)))


def own_rss_bytes(pid: int) -> int:
    """Of the process alone; 0 if it has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return 0


def peak_bytes(pid: int) -> int:
    """The kernel's own high-water mark of the process alone, since `reset_peak`."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no VmHWM for process {pid}")


def reset_peak(pid: int) -> None:
    with suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass
class Cost:
    """Filled in when the block of `metered` ends."""

    cpu_s: float = 0.0
    peak_rss_mb: float = 0.0
    children_seen: float = 0.0  # share of samples in which the process had a child


@contextmanager
def metered(pid: int) -> Iterator[Cost]:
    cost, done = Cost(), threading.Event()
    samples: list[tuple[int, bool]] = []

    def sample() -> None:
        while not done.wait(SAMPLE_S):
            samples.append((rss_bytes(pid), len(tree(pid)) > 1))

    reset_peak(pid)
    before = cpu_s(pid)
    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield cost
    finally:
        done.set()
        thread.join()
    cost.cpu_s = cpu_s(pid) - before
    cost.peak_rss_mb = max([peak_bytes(pid), *(rss for rss, _ in samples)]) / 1e6
    cost.children_seen = sum(child for _, child in samples) / max(len(samples), 1)
