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
import sys
from importlib.util import find_spec
from pathlib import Path

_SCRIPT = """\
#!/bin/sh
# {python}, which has PySpark: without the copies of it that Spark puts on the path.
rest=
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        {home}/python/lib/*.zip | {home}/jars/*) ;;
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
    home = _spark_home()
    if home is None:
        return sys.executable
    text = _SCRIPT.format(python=shlex.quote(sys.executable), home=shlex.quote(str(home)))
    name = f"python-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    path = (folder or cache_folder()) / name
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f"{name}.{os.getpid()}")
            fresh.write_text(text)
            fresh.chmod(0o755)
            fresh.replace(path)  # others may be about to do the same
    except OSError:
        return sys.executable
    return str(path) if os.access(path, os.X_OK) else sys.executable


def _spark_home() -> Path | None:
    """Of the package; None if there is none, or another Spark is to be used."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    home = Path(found.origin).parent
    named = os.environ.get("SPARK_HOME")
    return home if not named or Path(named).resolve() == home.resolve() else None
