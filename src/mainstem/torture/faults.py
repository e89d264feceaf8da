"""When to strike, and how."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random  # noqa: TID251 - seeded by the run
from typing import Protocol

from mainstem.torture.disks import LoopDisk
from mainstem.torture.server import Server

# Which new names in the data folder tell that something is under way.
AIMS: Mapping[str, Callable[[str], bool]] = {
    "any moment": lambda name: False,
    "snapshot": lambda name: name.startswith("snapshots/"),
    "file roll": lambda name: name.endswith(".journal"),
    "seal": lambda name: name.endswith((".places", ".places.new")),
    "merge": lambda name: name.endswith(".run"),
    "manifest": lambda name: name.startswith("MANIFEST") and name.endswith(".new"),
}
SHORTEST_S = 0.3  # of load before a strike
LOOK_EVERY_S = 0.0005


class Fault(Protocol):
    name: str

    def strike(self, server: Server) -> None:
        """The broker is dead when this returns, and its folder is there for the next one."""


class Kill:
    name = "kill"

    def strike(self, server: Server) -> None:
        server.kill()


class PowerCut:
    name = "power"

    def __init__(self, disk: LoopDisk) -> None:
        self._disk = disk

    def strike(self, server: Server) -> None:
        # The disk first: a broker that acknowledges what it only hoped to write gets the time to do so.
        self._disk.cut()
        server.kill_all()
        self._disk.power_up()


def wait_for_moment(data: Path, aim: str, chance: Random, longest_s: float) -> bool:
    """Let the load run, then return in the middle of what is aimed at; False: it did not come by.

    A strike follows within a millisecond or so of a new file's name, or a little later.
    """
    begun = time.monotonic()
    time.sleep(SHORTEST_S + chance.random() * max(longest_s - SHORTEST_S, 0) / 2)
    hits = AIMS[aim]
    before = _names(data)
    while time.monotonic() - begun < longest_s:
        now = _names(data)
        if any(hits(name) for name in now - before):
            time.sleep(chance.choice((0, 0, 0.001, 0.003, 0.01)))
            return True
        before = now
        time.sleep(LOOK_EVERY_S)
    return aim == "any moment"


def _names(data: Path) -> set[str]:
    names: set[str] = set()
    for folder in ("", "files", "snapshots"):
        try:
            names.update(f"{folder}/{name}" if folder else name for name in os.listdir(data / folder))
        except FileNotFoundError:
            continue
    return names
