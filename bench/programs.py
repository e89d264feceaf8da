"""The load programs in load/*.c: compiled when needed, run, their one line of JSON read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE / ".build"
SOURCES = HERE / "load"
FLAGS = ("-O2", "-Wall", "-Wextra")
LIBRARIES = {
    "produce": ["-lrdkafka", "-lpthread"],
    # Nothing in it names tcmalloc: it takes the place of malloc, and some linkers would leave it out.
    "consume": ["-Wl,--no-as-needed", "-l:libtcmalloc_minimal.so.4", "-lrdkafka"],
    "e2e": ["-lrdkafka", "-lpthread"],
    "raw": [],
    "raw_fetch": [],
    "sink": [],
    "amqp_raw": [],
    "amqp_lib": ["-lrabbitmq", "-lpthread"],
}


class LoadFailed(Exception):
    """A load program could not be built, or a run of it failed."""


def program(name: str) -> Path:
    """The path of the compiled program; compiled again if any source, or how it is compiled, is newer."""
    binary, source = BUILD / name, SOURCES / f"{name}.c"
    newest = max(path.stat().st_mtime for path in (source, Path(__file__), *SOURCES.glob("*.h")))
    if binary.exists() and binary.stat().st_mtime >= newest:
        return binary
    BUILD.mkdir(exist_ok=True)
    command = ["gcc", *FLAGS, "-o", str(binary), str(source), *LIBRARIES[name]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        missing = any(word in done.stderr for word in ("rdkafka", "tcmalloc", "amqp.h", "rabbitmq"))
        packages = "gcc librdkafka-dev libtcmalloc-minimal4 librabbitmq-dev"
        hint = f" (on Debian: apt-get install {packages})" if missing else ""
        raise LoadFailed(f"{' '.join(command)}: {done.stderr.strip()}{hint}")
    return binary


def start(name: str, port: int, topic: str, *options: object) -> subprocess.Popen[str]:
    command = [str(program(name)), "-b", f"127.0.0.1:{port}", "-t", topic, *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], timeout_s: float = 600) -> dict[str, float]:
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        program, *options = map(str, process.args)  # type: ignore[arg-type]
        raise LoadFailed(f"{Path(program).name} {' '.join(options)}: {err.strip() or process.returncode}")
    return {name: float(value) for name, value in json.loads(out).items()}


def run(name: str, port: int, topic: str, *options: object) -> dict[str, float]:
    return finish(start(name, port, topic, *options))
