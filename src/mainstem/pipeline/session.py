"""A Spark session for commands: quiet, on this machine unless a master is named, without a web page."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.model.errors import NotSupported
from mainstem.pipeline.jvm import launch_jvm
from mainstem.spark.interpreter import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDS_SPARK = "this needs Spark: pip install 'mainstem[spark]'"
LOCAL = "local[*]"
# One machine has few cores: more partitions than that only cost time in every batch.
SHUFFLE_PARTITIONS = str(os.cpu_count() or 2)
_ALWAYS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "60s",
    # A batch may be filtered by the source; Spark refuses such a reader unless this is on.
    "spark.sql.python.filterPushdown.enabled": "true",
}
if hasattr(socket, "AF_UNIX"):  # rows come from Python by a shorter way than TCP; from Spark 4.1 on
    _ALWAYS["spark.python.unix.domain.socket.enabled"] = "true"
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": SHUFFLE_PARTITIONS,
    # Nobody makes tables that Spark would keep; without this it leaves an empty folder where it is called.
    "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/mainstem-spark-warehouse",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


_chosen: set[str] = set()  # for PYSPARK_PYTHON, by this process


def require_spark() -> None:
    """Before work begins: what is missing, in one line."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise NotSupported(NEEDS_SPARK) from None
    if not os.environ.get("JAVA_HOME") and not shutil.which("java"):
        raise NotSupported("Spark needs Java 17 or newer: apt install openjdk-17-jre-headless")


def spark_session(
    name: str,
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    quick: bool = False,
    log_file: Path | None = None,
) -> SparkSession:
    """`settings` are Spark's own, and go before ours. `quick` is for commands that are over soon: it starts
    sooner, and computes slower all along. What Spark's JVM says goes to `log_file`, or nowhere.
    """
    require_spark()
    _choose_python(master)
    from pyspark.sql import SparkSession

    chosen = _ALWAYS | (_LOCAL if master.startswith("local") else {}) | dict(settings or {})
    named = {"spark.master": master, "spark.app.name": name}
    launch_jvm(chosen | named, quick=quick, log_file=log_file)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _own_ctrl_c():
        session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN" if log_file else "ERROR")
    _hush_pyspark()
    return session


@contextmanager
def _own_ctrl_c() -> Iterator[None]:
    """PySpark makes Ctrl-C its own, whoever had asked to hear of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, heard)


def _choose_python(master: str) -> None:
    """Unless the user has named one. Other machines may have this Python; they do not have our script."""
    named = os.environ.get("PYSPARK_PYTHON")
    if not named or named in _chosen:
        python = worker_python() if master.startswith("local") else sys.executable
        _chosen.add(python)
        os.environ["PYSPARK_PYTHON"] = python


def _hush_pyspark() -> None:
    """It also prints errors that it raises; whoever catches one says it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
