"""What the numbers were measured on and with: part of every results file."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from bench.peers import spark_connector, spark_python

ROOT = Path(__file__).parent.parent


def said(command: Sequence[str]) -> str:
    """The first line a tool prints, or why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"unknown ({e})"
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines and done.returncode == 0 else "unknown"


def commit() -> str:
    return said(["git", "rev-parse", "--short=10", "HEAD"])


def is_dirty() -> bool:
    """Whether the product differs from the commit that the results will name."""
    done = subprocess.run(
        ["git", "status", "--porcelain", "src", "bench", ":!bench/results"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return bool(done.stdout.strip())


def disk_of(folder: Path) -> dict[str, str]:
    best = ("", "unknown", "unknown", "")
    for line in Path("/proc/mounts").read_text().splitlines():
        device, mount, kind, options = line.split()[:4]
        if str(folder.resolve()).startswith(mount) and len(mount) > len(best[0]):
            best = (mount, device, kind, options)
    model = Path("/sys/block") / re.sub(r"p?\d+$", "", Path(best[1]).name) / "queue/rotational"
    kind = {"0": "not rotational", "1": "rotational"}.get(
        model.read_text().strip() if model.exists() else "", "unknown"
    )
    return {"device": best[1], "filesystem": best[2], "options": best[3], "kind": kind}


def describe(data: Path) -> dict[str, object]:
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    return {
        "cpu": cpu.group(1) if cpu else "unknown",
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory.group(1)) / 1e6, 1) if memory else "unknown",
        "kernel": platform.release(),
        "system": said(["sh", "-c", ". /etc/os-release; echo $PRETTY_NAME"]),
        "disk": disk_of(data),
        "load_average_at_start": os.getloadavg(),
    }


def versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "java": said(["sh", "-c", "java -version 2>&1"]),
        "gcc": said(["gcc", "--version"]),
        "librdkafka": said(["pkg-config", "--modversion", "rdkafka"]),
        "librabbitmq": said(["pkg-config", "--modversion", "librabbitmq"]),
        "pyspark": installed("pyspark"),
        "pyarrow": installed("pyarrow"),
        "Spark's Kafka connector": f"{spark_connector.VERSION}, kafka-clients {spark_connector.CLIENTS}; "
        f"its streams on PySpark {spark_python.VERSION}",
    }


def installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
