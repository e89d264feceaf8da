"""A Spark session in a process of its own, kept for all runs of a scenario.

A session takes ten seconds to start and many more until its JVM is warm: one for each run would leave no time
for five pairs. The sessions of all sides are up together and idle but for the one that runs.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bench.programs import LoadFailed

JOB = Path(__file__).parent / "load" / "spark_session.py"
START_S, RUN_S, STOP_S = 120.0, 600.0, 30.0


class Session:
    def __init__(self, python: str, version: str, jars: str, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        # Modules compiled to bytecode are kept, as an installation has them: Spark starts many processes.
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [python, str(JOB), jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=variables,
                start_new_session=True,  # Ctrl-C reaches the bench alone, which then stops its sessions
            )
        try:
            found = self._answer(START_S).get("pyspark")
            if found != version:
                raise LoadFailed(f"{python} runs PySpark {found}, not {version}")
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, task: Mapping[str, object]) -> dict[str, float]:
        """The figures of one job; an error if it failed or did not see all of its rows."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(dict(task)).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._answer(RUN_S)
        if "error" in answer:
            raise LoadFailed(f"{task.get('reader')}, {task.get('job')}: {answer['error']}")
        return {name: float(str(value)) for name, value in answer.items()}

    def _answer(self, timeout_s: float) -> dict[str, object]:
        """The next line. Answers are short and written at once, so none comes in parts."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            why = "ended" if ready else f"said nothing for {timeout_s:.0f} s"
            tail = self._log.read_text(errors="replace").strip().splitlines()[-8:]
            raise LoadFailed("\n".join([f"a Spark session {why}; the end of its log:", *tail]))
        answer: dict[str, object] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Without tasks it ends by itself."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """With its JVM and workers: it leads its own process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(STOP_S)
