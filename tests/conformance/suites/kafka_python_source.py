"""The test folder of kafka-python's source package: fetched once, by name, kept in pytest's cache folder.

An installed kafka-python has no tests; its source package has. The version is the installed one, so that the
suite and the client it tests belong together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

PACKAGE = "kafka-python"


def suite_folder(cache: Path) -> Path:
    """A folder whose `test/integration` is the suite. Needs a network the first time only."""
    kept = cache / f"{PACKAGE}-{version(PACKAGE)}"
    if not kept.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            made = _unpacked(_downloaded(Path(scratch)), Path(scratch) / "unpacked")
            try:
                os.rename(made, kept)
            except OSError:  # another worker was quicker; what it made is the same
                if not kept.exists():
                    raise
    return kept


def _downloaded(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    which = ["--no-deps", "--no-binary", PACKAGE, "--dest", str(folder), f"{PACKAGE}=={version(PACKAGE)}"]
    done = subprocess.run([*pip, *which], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"cannot fetch the source package of {PACKAGE}:\n{done.stderr}")
    (archive,) = folder.glob("*.tar.gz")
    return archive


def _unpacked(archive: Path, folder: Path) -> Path:
    """Only the tests: the client itself is the installed one."""
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].split("/")[0]
        wanted = [member for member in tar.getmembers() if member.name.startswith(f"{top}/test/")]
        # Debian 12's Python is older than the filter.
        careful = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(folder, wanted, **careful)
    made = folder / "suite"
    made.mkdir()
    shutil.move(folder / top / "test", made / "test")
    return made
