"""The scripts that find or install what is no Python package."""

import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
SCRIPTS = ["java.sh", "kcat.sh", "postgres.sh", "rsyslog.sh", "strace.sh"]


@pytest.fixture
def bare(tmp_path):
    """A PATH without a package manager, and with nothing to be found."""
    for name in ("sh", "id", "dirname", "grep"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return {"PATH": str(tmp_path)}


def test_what_cannot_be_installed_is_named_in_one_line(bare):
    done = subprocess.run(
        ["sh", TOOLS / "packages.sh", "a test", "it is skipped", "this-one", "or-that"],
        env=bare,
        capture_output=True,
        text=True,
    )
    line = "Missing for a test: sudo apt install this-one (without it, it is skipped)\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", line)


@pytest.mark.parametrize("script", SCRIPTS)
def test_nothing_that_is_missing_stops_make(bare, script):
    done = subprocess.run(["sh", TOOLS / script], env=bare, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) <= 1
