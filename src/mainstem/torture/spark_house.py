"""Spark's processes: a standalone cluster from the pip package, the driver, and who of them can be killed."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

import mainstem
from mainstem.model.errors import MainstemError
from mainstem.torture.spark_job import Job

START_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.05
TAIL_CHARS = 3000
EXECUTORS = 2
EXECUTOR_MEMORY_MIB = 768
EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
PYTHON_WORKER = "pyspark.daemon pyspark.worker"  # those on the driver run other modules


class Process:
    """One program with all that it starts, which dies with us."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=log.parent,
                env=dict(environment),
                start_new_session=True,
            )
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """kill -9, with its group. Not if it has ended: its number may be another's by now."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-TAIL_CHARS:]


class House(Protocol):
    """Where the job's work is done."""

    master: str
    settings: Mapping[str, str]

    def start(self) -> None: ...

    def executors(self) -> list[int]:
        """Processes that can be killed while the driver lives."""

    def python_workers(self, driver: int) -> list[int]: ...

    def stop(self) -> None: ...


class Local:
    """Driver and executor in one process; only Python workers are beside it."""

    master = "local[2]"
    # It is over soon: the compiler that takes long to start does not pay.
    settings: Mapping[str, str] = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

    def start(self) -> None:
        """Nothing to do: the driver is all there is."""

    def executors(self) -> list[int]:
        return []

    def python_workers(self, driver: int) -> list[int]:
        return [pid for pid in below(driver) if _is_python_worker(pid)]

    def stop(self) -> None:
        """Nothing to do."""


class Cluster:
    """A master and a worker with two executors of one core each, on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._page = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        self.settings: Mapping[str, str] = {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": f"{EXECUTOR_MEMORY_MIB}m",
        }
        self._processes: list[Process] = []

    def start(self) -> None:
        memory = f"{EXECUTORS * EXECUTOR_MEMORY_MIB}m"
        self._run("Master", "--port", str(self._port), "--webui-port", str(self._page))
        self._run(
            "Worker",
            self.master,
            "--cores",
            str(EXECUTORS),
            "--memory",
            memory,
            "--webui-port",
            str(_free_port()),
        )
        until = time.monotonic() + START_TIMEOUT_S
        while self._workers() < 1:
            if time.monotonic() > until:
                raise MainstemError(f"no cluster in {START_TIMEOUT_S} s:\n{self._processes[-1].log_tail()}")
            time.sleep(LOOK_EVERY_S)

    def executors(self) -> list[int]:
        return [pid for pid in below(self._processes[-1].pid) if EXECUTOR_CLASS in command_of(pid)]

    def python_workers(self, driver: int) -> list[int]:
        return [pid for one in self.executors() for pid in below(one) if _is_python_worker(pid)]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()

    def _run(self, role: str, *options: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}"]
        added = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        log = self._folder / f"{role.lower()}.log"
        environment = spark_environment() | added
        self._processes.append(Process([*command, "--host", "127.0.0.1", *options], log, environment))

    def _workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:
            return 0


def start_driver(job: Job, log: Path) -> Process:
    command = [sys.executable, "-m", "mainstem.torture.spark_job", msgspec.json.encode(job).decode()]
    return Process(command, log, spark_environment())


def spark_environment() -> dict[str, str]:
    """Ours, with this Python and this very package for all of them."""
    ours = str(Path(mainstem.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [ours, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}


def kill(pid: int) -> bool:
    """kill -9; False if it was gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def below(pid: int) -> list[int]:
    """What a process has started, and what that has started."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (parent := _parent_of(int(entry))):
            parents.setdefault(parent, []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return sorted(found)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent_of(pid: int) -> int:
    """0 if it is gone, or dead and not buried."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return 0
    return 0 if state == "Z" else int(parent)


def _is_python_worker(pid: int) -> bool:
    return PYTHON_WORKER in command_of(pid)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
