"""A real PostgreSQL for tests: Debian's package, in a temporary folder, on a free port of this machine."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

PASSWORD = "s3cret/@word"
QUOTED = "s3cret%2F%40word"
WAIT_S = 60


def programs() -> Path | None:
    """The folder with the server's programs, the newest version's."""
    found = shutil.which("postgres")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Postgres:
    """A server that can be stopped and started again."""

    def __init__(self, binaries: Path, folder: Path, user: str | None) -> None:
        self._binaries = binaries
        self._data = folder / "data"
        self._log = folder / "log"
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        secret = folder / "password"
        secret.write_text(PASSWORD)
        if user:
            for path in (folder, secret):
                shutil.chown(path, user)
        initdb = [str(binaries / "initdb"), "-D", str(self._data), "-U", "alice", "-E", "UTF8", "--locale=C"]
        initdb += ["--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"]
        subprocess.run(initdb, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        return f"postgresql://alice:{QUOTED}@127.0.0.1:{self.port}/postgres"

    def connect(self):
        return psycopg.connect(self.url, autocommit=True)

    def start(self) -> None:
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for setting in ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"):
            command += ["-c", setting]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, user=self._user, cwd=self._data.parent, stdout=log, stderr=log
            )
        deadline = time.monotonic() + WAIT_S
        while True:
            assert self._process.poll() is None, self._log.read_text()[-2000:]
            with contextlib.suppress(psycopg.OperationalError):
                self.connect().close()
                return
            assert time.monotonic() < deadline, self._log.read_text()[-2000:]
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # ends who is connected
            self._process.wait(WAIT_S)
            self._process = None


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    binaries = programs()
    assert binaries is not None
    # As root it refuses to run; the package brings a user for it.
    user = None
    if os.getuid() == 0:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam("postgres").pw_name
        user = user or pwd.getpwnam("nobody").pw_name
    with tempfile.TemporaryDirectory(prefix="mainstem-postgres-") as folder:
        server = Postgres(binaries, Path(folder), user)
        server.start()
        try:
            yield server
        finally:
            server.stop()
