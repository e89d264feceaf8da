"""Spark's JVM, started with its noise in a file and, for commands that are over soon, quickly."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from mainstem.model.errors import NotSupported
from mainstem.pipeline.archive import Making, archive_path, java_command, start_making
from mainstem.spark.interpreter import cache_folder

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# The compiler that takes long to pay, and a collector with threads, are for work that lasts.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_NOISE = ("WARN", "Using Spark's default", "Setting default log level", "To adjust logging level")


def launch_jvm(settings: Mapping[str, str], *, quick: bool, log_file: Path | None) -> None:
    """For the session that this process makes next; nothing happens if there is a JVM already."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is not None:
        return
    options, making = _java_options(quick)
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    conf.set(JAVA_OPTIONS, " ".join(filter(None, (*options, settings.get(JAVA_OPTIONS)))))
    if quick:
        # Spark's script asks a small JVM for the command line of the large one.
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", _QUICK)
    log = _open_log(log_file)
    SparkContext._ensure_initialized(gateway=_gateway(conf, log, making))
    if making is not None:
        atexit.register(making.leave_to_finisher)


def _gateway(conf: object, log: IO[bytes], making: Making | None) -> object:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # A signal to this command and its children is this command's to answer: it ends Spark in order.
    how: dict[str, object] = {"stdout": log, "stderr": log, "start_new_session": True}
    if making is not None:
        how["pass_fds"] = (making.held,)
    try:
        return launch_gateway(conf, how)
    except PySparkRuntimeError:
        raise NotSupported(f"Spark's Java did not start: {_last_line(Path(log.name))}") from None
    finally:
        if making is not None:
            making.launched()


def _java_options(quick: bool) -> tuple[list[str], Making | None]:
    """The archive if there is one; else this JVM makes it when it ends."""
    import pyspark

    options = [_QUICK] if quick else []
    java = java_command()
    if java is None:
        return options, None
    try:
        path = archive_path(cache_folder(), java, Path(pyspark.__file__).parent)
    except OSError:  # a Spark or Java that is put together otherwise
        return options, None
    if path.exists():
        return [*options, f"-XX:SharedArchiveFile={path}", "-Xshare:auto"], None
    making = start_making(path)
    return [*options, *([making.java_option] if making else [])], making


def _open_log(file: Path | None) -> IO[bytes]:
    if file is not None:
        return file.open("ab")
    log = tempfile.NamedTemporaryFile(prefix="mainstem-spark-", suffix=".log")  # noqa: SIM115
    atexit.register(log.close)  # and with that, removed
    return log


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    told = [line for line in lines if line and not any(noise in line for noise in _NOISE)]
    return told[-1] if told else "it said nothing"
