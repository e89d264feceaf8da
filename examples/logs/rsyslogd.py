"""An rsyslogd beside the system's: it takes lines on a socket in a folder, and sends them to a topic."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

DAEMON = shutil.which("rsyslogd", path="/usr/sbin:/sbin:/usr/bin")
OUTPUT = next(Path("/usr/lib").glob("*/rsyslog/omkafka.so"), None)
TIMEOUT_S = 30
CONFIG = Path(__file__).with_name("rsyslog.conf")


class Rsyslogd:
    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        if DAEMON is None or OUTPUT is None:
            raise SystemExit("this needs rsyslog and its Kafka output: apt install rsyslog rsyslog-kafka")
        self._socket = folder / "log.sock"
        names = {"FOLDER": str(folder), "BOOTSTRAP": bootstrap, "TOPIC": topic}
        self._process = subprocess.Popen([DAEMON, "-n", "-iNONE", "-f", str(CONFIG)], env=os.environ | names)

    def send(self, lines: Iterable[bytes]) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to:
            self._connect(to)
            for line in lines:
                to.sendall(line)

    def _connect(self, to: socket.socket) -> None:
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return to.connect(str(self._socket))
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    def __enter__(self) -> "Rsyslogd":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()  # it sends what it has, then ends
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
