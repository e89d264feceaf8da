"""A Python for Spark's own processes that starts in less than half the time.

Spark puts its zip and a jar first on the path of every Python that it starts, and Python keeps nothing of
what it compiles from a zip: each of them compiles PySpark anew, for half a second; there is one for each
stream. Where PySpark is installed as a package they can do without.

    os.environ["PYSPARK_PYTHON"] = worker_python()  # before the session is made
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

_SCRIPT = """\
#!/bin/sh
# Python with an installed PySpark, without the copies of it that Spark puts on the path.
set -f
rest=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        {copies}) ;;
        *) rest=$rest${{rest:+:}}$entry ;;
    esac
done
PYTHONPATH=$rest exec {python} "$@"
"""


def cache_folder() -> Path:
    """What is there can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem"


def worker_python(folder: Path | None = None) -> str:
    """For PYSPARK_PYTHON on this machine: a script in `folder` or, where that is of no use, this Python.

    On a cluster it is the path of a Python that each machine has.
    """
    homes = _spark_homes()
    if not homes:
        return sys.executable
    quoted = [shlex.quote(str(home)) for home in homes]
    copies = " | ".join(f"{home}/python/lib/*.zip | {home}/jars/*" for home in quoted)
    text = os.fsencode(_SCRIPT.format(python=shlex.quote(sys.executable), copies=copies))
    try:
        path = (folder or cache_folder()) / f"python-{hashlib.sha256(text).hexdigest()[:16]}"
        _put(path, text)
        return str(path) if os.access(path, os.X_OK) else sys.executable
    except (OSError, RuntimeError):  # nowhere to write, or nobody's home
        return sys.executable


def _put(path: Path, text: bytes) -> None:
    """A file that nobody else can have written: it will be run. OSError if there can be none."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_mine(path.parent):
        raise PermissionError(f"others may write to {path.parent}")
    if path.exists() and _is_mine(path) and path.read_bytes() == text:
        return
    number, name = tempfile.mkstemp(dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text)
        fresh.chmod(0o755)
        fresh.replace(path)  # others may be about to do the same
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _is_mine(path: Path) -> bool:
    found = path.lstat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _spark_homes() -> list[Path]:
    """Names of the package's folder; none if there is no package, or another Spark is to be used."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return []
    home = Path(found.origin).parent
    named = os.environ.get("SPARK_HOME")
    if named and Path(named).resolve() != home.resolve():
        return []
    return sorted({home, home.resolve(), Path(named or home)})
