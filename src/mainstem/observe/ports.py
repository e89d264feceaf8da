"""Who holds a port: so that "address in use" can name the culprit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LISTEN = "0A"  # state column of /proc/net/tcp


def port_holder(port: int, proc: Path = Path("/proc")) -> str | None:
    """`name (process 123)` of who listens on `port`, or None when that cannot be told."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not sockets:
        return None
    for process in proc.iterdir():
        if process.name.isdigit() and any(link in sockets for link in _links(process / "fd")):
            try:
                name = (process / "comm").read_text().strip()
            except OSError:
                name = "a program"
            return f"{name} (process {process.name})"
    return None


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            rows = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            # sl local_address remote_address st tx:rx tr:when retrnsmt uid timeout inode ...
            columns = row.split()
            if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                yield columns[9]


def _links(folder: Path) -> Iterator[str]:
    """Open files of a process; none if it is gone or somebody else's."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(folder / name)
        except OSError:
            continue
