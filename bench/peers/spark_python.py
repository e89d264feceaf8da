"""The Python of an older Spark: the newest Kafka connector that Maven has can stream on Spark 4.0 only.

PySpark comes by pip, once, into an environment under bench/.peers. Everything else (Arrow, Mainstem) is that
of the bench, so both sides share it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import mainstem

VERSION = "4.0.0"
HOME = Path(__file__).parents[1] / ".peers" / f"pyspark-{VERSION}"


def python() -> str:
    """The interpreter that imports it."""
    if not HOME.exists():
        part = HOME.with_name(f"{HOME.name}.part")  # one that was broken off is not taken for a whole one
        shutil.rmtree(part, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(part)], check=True)
        pip = [str(part / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, f"pyspark=={VERSION}"], check=True)
        share(part)
        part.rename(HOME)
    return str(HOME / "bin" / "python")


def share(home: Path) -> None:
    """What is not in this environment is taken from ours: paths of a .pth file are looked at last."""
    (packages,) = home.glob("lib/python3*/site-packages")
    source = Path(mainstem.__file__).parents[1]
    (packages / "bench.pth").write_text(f"{source}\n{sysconfig.get_path('purelib')}\n")
