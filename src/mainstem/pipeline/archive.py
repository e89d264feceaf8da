"""A class archive for Spark's JVM, which cuts its start to less than half.

A JVM that was asked to writes the classes it has loaded into a file when it ends, and later ones map that
file instead of loading thousands of classes. The first session makes it. Its JVM goes on writing for
some seconds after the command has ended, so a small process waits for that and puts the file into place:

    JVM, with one end of a pipe ──────────▶ ends, and the pipe with it
    python -m mainstem.pipeline.archive ──▶ reads the pipe to its end, renames ….jsa.<pid> to ….jsa

So readers only ever see whole files. A lock keeps a second session from making one meanwhile.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# The JVM writes a file's head last, so what begins with zeros was not finished.
_UNFINISHED = bytes(4)


def java_command() -> str | None:
    """As Spark's own scripts choose it."""
    if home := os.environ.get("JAVA_HOME"):
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def archive_path(folder: Path, java: str, spark: Path) -> Path:
    """One for each pair of Java and Spark as they are installed: an archive fits no other."""
    facts = []
    for place in (Path(java).resolve(), (spark / "jars").resolve()):
        found = place.stat()
        facts += [str(place), str(found.st_mtime_ns), str(found.st_size)]
    return folder / f"spark-{hashlib.sha256('|'.join(facts).encode()).hexdigest()[:16]}.jsa"


@dataclass(frozen=True, slots=True)
class Making:
    """An archive that the JVM of this session will write. `lock` and `ends` are file descriptors."""

    path: Path
    unfinished: Path
    lock: int
    ends: int  # read to its end: the JVM is gone
    held: int  # for the JVM to inherit

    @property
    def java_option(self) -> str:
        return f"-XX:ArchiveClassesAtExit={self.unfinished}"

    def launched(self) -> None:
        """The JVM has its end of the pipe: ours would keep it open."""
        os.close(self.held)

    def leave_to_finisher(self) -> None:
        """When this process ends."""
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.unfinished), str(self.path)],
            stdin=self.ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self.lock,),
            start_new_session=True,
        )


def start_making(path: Path) -> Making | None:
    """None where somebody else is at it, or nothing can be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    # Of a session that was killed: nobody else holds the lock.
    for old in path.parent.glob(f"{path.name}.*"):
        old.unlink(missing_ok=True)
    ends, held = os.pipe()
    return Making(path, path.with_name(f"{path.name}.{os.getpid()}"), lock, ends, held)


def finish(unfinished: Path, path: Path) -> bool:
    """Into place if it is whole."""
    try:
        with unfinished.open("rb") as file:
            head = file.read(len(_UNFINISHED))
    except OSError:
        return False
    if len(head) < len(_UNFINISHED) or head == _UNFINISHED:
        unfinished.unlink()
        return False
    unfinished.rename(path)
    return True


def _wait_and_finish(unfinished: Path, path: Path) -> None:
    while os.read(0, 1024):
        pass
    finish(unfinished, path)


if __name__ == "__main__":
    _wait_and_finish(Path(sys.argv[1]), Path(sys.argv[2]))
