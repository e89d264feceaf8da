"""A Python for Spark's processes, without the copies of PySpark that Spark puts on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from mainstem.spark.interpreter import worker_python

HOME = Path(pyspark.__file__).parent
WHERE = "import json, os, sys; print(json.dumps([sys.executable, os.environ['PYTHONPATH'], sys.argv[1:]]))"


@pytest.fixture(autouse=True)
def no_other_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)


def started(python: str, path: str) -> list[object]:
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [python, "-c", WHERE, "a b", "c"], env=environment, capture_output=True, text=True, check=True
    )
    found: list[object] = json.loads(done.stdout)
    return found


def test_it_is_this_python_without_what_spark_puts_on_the_path(tmp_path: Path) -> None:
    python = worker_python(tmp_path)
    assert python != sys.executable
    lib, jar = HOME / "python" / "lib", HOME / "jars" / "spark-core_2.13-4.3.0.jar"
    theirs = [f"{lib}/pyspark.zip", f"{lib}/py4j-0.10.9.9-src.zip", str(jar)]
    mine = ["/somewhere/my.zip", f"{tmp_path}/with a space"]
    found = started(python, ":".join([*theirs[:2], mine[0], theirs[2], mine[1]]))
    assert found == [sys.executable, ":".join(mine), ["a b", "c"]]
    assert started(python, ":".join(theirs)) == [sys.executable, "", ["a b", "c"]]


def test_it_knows_the_real_name_of_a_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own script finds its home by that."""
    (tmp_path / "link").symlink_to(HOME.parent)
    monkeypatch.syspath_prepend(str(tmp_path / "link"))
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    python = worker_python(tmp_path / "cache")
    for home in (HOME, tmp_path / "link" / "pyspark"):
        assert started(python, f"{home}/python/lib/pyspark.zip")[1] == ""


def test_what_others_may_have_written_is_not_run(tmp_path: Path) -> None:
    python = Path(worker_python(tmp_path))
    text = python.read_bytes()
    python.write_bytes(b"#!/bin/sh\necho something else\n")
    assert worker_python(tmp_path) == str(python)
    assert python.read_bytes() == text, "made again"
    python.chmod(0o777)
    assert worker_python(tmp_path) == str(python)
    assert python.stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o777)
    assert worker_python(tmp_path) == sys.executable


def test_it_is_made_once(tmp_path: Path) -> None:
    assert worker_python(tmp_path) == worker_python(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_where_it_is_of_no_use_it_is_this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    assert worker_python(in_the_way) == sys.executable
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert worker_python(tmp_path) == sys.executable, "the zip of another Spark is the one to use"
    monkeypatch.setenv("SPARK_HOME", str(HOME))
    assert worker_python(tmp_path) != sys.executable
