"""Java programs beside a broker: their jars by Maven, once; ours compiled when the tests run."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers import kafka

SOURCES = Path(__file__).parent / "java"
PEERS = kafka.LIBS.parent
LIBS = PEERS / f"java-{kafka.VERSION}"
# Starts quickly and takes little of the machine, which the broker shares.
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
WAIT_S = 120.0
POLL_S = 0.1


def jars() -> str:
    """A class path with Kafka's clients, tools, Streams and Connect."""
    return f"{kafka.fetch()}/*:{_fetched('pom.xml', LIBS)}/*"


def client_jars(version: str) -> str:
    """A class path with the Java client of some version."""
    return f"{_fetched('clients.pom.xml', PEERS / f'clients-{version}', f'-Dclients={version}')}/*"


def _fetched(pom: str, folder: Path, *options: str) -> Path:
    if not folder.exists():
        if not shutil.which("mvn"):
            raise RuntimeError("these tests need Maven and a JDK (mvn, java and javac on the PATH)")
        command = ["mvn", "-q", "-B", "-f", str(SOURCES / pom), "dependency:copy-dependencies", *options]
        subprocess.run([*command, f"-DoutputDirectory={folder}.new"], check=True)
        Path(f"{folder}.new").rename(folder)
    return folder


def compiled(program: str, class_path: str, folder: Path) -> str:
    """The class path that runs one of our programs."""
    into = folder / "classes"
    command = ["javac", "-nowarn", "-cp", class_path, "-d", str(into), str(SOURCES / f"{program}.java")]
    subprocess.run(command, check=True)
    return f"{into}:{class_path}"


class Java:
    """Runs main classes; ends what still runs when the test is over."""

    def __init__(self, class_path: str, folder: Path) -> None:
        self._command = ["java", *JVM, "-cp", class_path]
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def __call__(self, main: str, *arguments: object, given: str = "", fails: bool = False) -> str:
        """What a program that ends by itself said. One that fails without `fails` fails the test."""
        done = subprocess.run(
            [*self._command, main, *map(str, arguments)],
            input=given,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
        )
        said = f"{done.stdout}\n{done.stderr}"
        assert (done.returncode != 0) == fails, f"{main} ended with {done.returncode}:\n{said}"
        return said if fails else done.stdout

    def start(self, main: str, *arguments: object) -> Program:
        log = self._folder / f"{main.rsplit('.', 1)[-1]}-{len(self._running)}.log"
        with log.open("wb") as out:
            command = [*self._command, main, *map(str, arguments)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self._running.append(process)
        return Program(process, log)

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


class Program:
    """One that runs until it is ended."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(WAIT_S)


def until(what: str, holds, *programs: Program, wait_s: float = WAIT_S) -> None:
    """Wait for a condition, or for a program that it depends on to end."""
    limit = time.monotonic() + wait_s
    pause = threading.Event()
    while not holds():
        ended = [program for program in programs if not program.is_running()]
        assert not ended, f"ended before {what}:\n{ended[0].said[-4000:]}"
        said = "".join(program.said[-4000:] for program in programs)
        assert time.monotonic() < limit, f"not within {wait_s:g} s: {what}\n{said}"
        pause.wait(POLL_S)


def table(text: str) -> list[Sequence[str]]:
    """The words of each line that has any."""
    return [line.split() for line in text.splitlines() if line.strip()]
